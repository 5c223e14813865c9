"""What crosses the wire, and nothing else: one module a protocol, typed payloads that both sides import.

Who wants to know what leaves a site reads this package: a handler can only answer with a payload declared here, and
`protocols.wire.message` shows the few words (site, round, lane) that travel beside it.
"""

PROTOCOLS = ("bc3e", "coreset", "gp", "residual", "sec")
"""Protocols that are built; each has a module of this name in `protocols`, `clients`, `strategies` and `scenarios`."""

SHARED = ("secure_aggregation",)
"""Modules of payloads that protocols have in common; their asks are answered by ``clients/NAME.py``, too."""
