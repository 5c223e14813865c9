"""The sites' side, for a ClientApp of one's own (docs/own-apps.md).

>>> from consilience.clients import handle
>>> handle.__name__
'handle'
"""

from clients.dispatch import answers
from clients.messenger import handle
from clients.mods import message_size_mod

__all__ = ["answers", "handle", "message_size_mod"]
