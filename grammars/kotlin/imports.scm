(import) @module @import
