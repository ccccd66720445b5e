(use_statement module: (package) @module) @import
(require_expression (bareword) @module) @import
