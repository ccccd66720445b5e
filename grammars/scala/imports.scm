(import_declaration) @module @import
