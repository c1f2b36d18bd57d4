"""What every Python that a test starts does first: it looks for garbage rarely.

Python would look through the million objects of all imported modules again and again, for a sixth of all time.
"""

import gc

gc.set_threshold(50_000, 20, 50)
