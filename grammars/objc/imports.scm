((preproc_include path: (string_literal) @module) @import (#set! relative "1"))
(preproc_include path: (system_lib_string) @module) @import
(module_import path: (_) @module) @import
