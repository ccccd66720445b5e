(use_declaration argument: (_) @module) @import
(extern_crate_declaration name: (identifier) @module) @import
((mod_item name: (identifier) @module !body) @import (#set! prefix "self::"))
