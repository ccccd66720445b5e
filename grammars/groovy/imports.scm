(import_declaration (scoped_identifier) @module) @import
(import_declaration (asterisk) @imported) @import
