"""`python -m zoo` and the `zoo` command are the same."""

import atexit
import gc

from zoo.cli.main import main

atexit.register(gc.freeze)  # else Python's end looks at every object of torch's once more: two seconds of the processor

if __name__ == "__main__":
    main()
