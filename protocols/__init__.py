"""Payloads and settings: one package a protocol, which sites and fusion center both import.

To know what leaves a site, read this room. A handler can only answer with a payload that is declared here;
`protocols.wire.message` has the few words (site, round, lane) that travel with it.
"""
