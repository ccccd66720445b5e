(using_directive) @module @import
