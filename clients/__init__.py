"""Sites: they hold private data and answer the fusion center's asks.

A message goes through `clients.app`, `clients.dispatch` and one handler. A protocol provides three modules, as
``clients/NAME/`` or in a package of its own (`protocols.registry`). Shared code imports each of them only when needed,
because in deployment every message is a process of its own.

==========  =================================================  =====================================================
module      what it provides                                   who calls it, and when
==========  =================================================  =====================================================
handlers    functions ``(ask, site) -> answer``, decorated     `clients.dispatch`, when a message asks something of
            with `clients.dispatch.answers`                    the protocol
shard       ``open_shard(config) -> shard``: the site's own    `clients.shards`, when a handler first uses
            data as the protocol uses them; raises             ``site.shard``
            `clients.data.DataError`
check       ``check_lines(config) -> list of str``: what of    ``consilience check``
            the site's data would be used, and what would
            leave the site; raises as ``open_shard``
==========  =================================================  =====================================================

`config` is the run configuration overridden by the site's own. A shard is a frozen dataclass of arrays, text, numbers
and mappings of these, so that it can be kept on the site's disk (`clients.data.cache`); its attribute ``n``, if it has
one, is the number of rows that the site's policy looks at.
"""
