"""What crosses the wire, and what a run may set: one package a protocol, which sites and fusion center both import.

Who wants to know what leaves a site reads this room: a handler can only answer with a payload declared here, and
`protocols.wire.message` shows the few words (site, round, lane) that travel beside it.
"""
