(import_declaration [(scoped_identifier) (identifier)] @module) @import
(import_declaration (asterisk) @imported) @import
