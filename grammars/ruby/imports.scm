((call method: (identifier) @_require arguments: (argument_list . (string) @module)) @import
  (#any-of? @_require "require" "load" "autoload"))
((call method: (identifier) @_require arguments: (argument_list . (string) @module)) @import
  (#set! relative "1") (#eq? @_require "require_relative"))
((call method: (identifier) @_require arguments: (argument_list . (simple_symbol) (string) @module)) @import
  (#eq? @_require "autoload"))
