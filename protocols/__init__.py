"""What crosses the wire, and what a run may set: one package a protocol, which sites and fusion center both import.

To know what leaves a site, read this room: a handler can only answer with a payload that is declared here, and
`protocols.wire.message` has the few words (site, round, lane) that travel with it.
"""
