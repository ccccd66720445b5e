"""Context Graph Protocol provider for one git repository."""

from __future__ import annotations

__version__ = "0.1.0"
