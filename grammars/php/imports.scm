(namespace_use_declaration) @module @import
(require_once_expression (string) @module) @import
(require_once_expression (binary_expression right: (string) @module)) @import
(require_expression (string) @module) @import
(require_expression (binary_expression right: (string) @module)) @import
(include_expression (string) @module) @import
(include_once_expression (string) @module) @import
