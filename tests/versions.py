"""Marks for tests of what older versions of transformers cannot do."""

import pytest
import transformers
from packaging.version import Version


def needs(version: str, reason: str) -> pytest.MarkDecorator:
    """Skip a test where transformers is older than this."""
    return pytest.mark.skipif(Version(transformers.__version__) < Version(version), reason=reason)


HIDDEN = needs("5.18", "transformers hides AutoImageProcessor where torchvision is missing")
