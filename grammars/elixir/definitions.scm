(comment) @comment
((unary_operator operator: "@" operand: (call target: (identifier) @_attribute)) @comment
  (#any-of? @_attribute "doc" "typedoc"))
((unary_operator operator: "@" operand: (call target: (identifier) @_attribute)) @attached
  (#any-of? @_attribute "spec" "impl" "deprecated" "since" "tag" "describetag" "dialyzer"))

((call target: (identifier) @_def (arguments . (alias) @name) (do_block)? @body) @definition.module
  (#any-of? @_def "defmodule" "defimpl"))
((call target: (identifier) @_def (arguments . (alias) @name)
  (do_block . (unary_operator operand: (call target: (identifier) @_doc)) @doc) @body) @definition.module
  (#eq? @_def "defmodule") (#eq? @_doc "moduledoc"))
((call target: (identifier) @_def (arguments . (alias) @name) (do_block)? @body) @definition.interface
  (#eq? @_def "defprotocol"))

((call target: (identifier) @_def (arguments . [
  (identifier) @name
  (call target: (identifier) @name)
  (binary_operator left: (call target: (identifier) @name))
  (binary_operator left: (identifier) @name)]) (do_block)? @body) @definition.function
  (#any-of? @_def "def" "defp" "defdelegate" "defguard" "defguardp" "defn" "defnp"))
((call target: (identifier) @_def (arguments . [
  (identifier) @name
  (call target: (identifier) @name)
  (binary_operator left: (call target: (identifier) @name))]) (do_block)? @body) @definition.macro
  (#any-of? @_def "defmacro" "defmacrop"))
((unary_operator operator: "@" operand: (call target: (identifier) @_attribute (arguments . [
  (binary_operator left: (call target: (identifier) @name))
  (binary_operator left: (identifier) @name)]))) @definition.type
  (#any-of? @_attribute "type" "typep" "opaque"))
((unary_operator operator: "@" operand: (call target: (identifier) @_attribute (arguments . [
  (binary_operator left: (call target: (identifier) @name))
  (binary_operator left: (binary_operator left: (call target: (identifier) @name)))]))) @definition.prototype
  (#any-of? @_attribute "callback" "macrocallback"))
((call target: (identifier) @_call (arguments . (string) @name) (do_block) @body) @definition.test
  (#any-of? @_call "test" "describe" "property"))
