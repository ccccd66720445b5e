(comment) @comment

(assignment left: (constant) @name right: (_) @body) @definition.variable
(call method: (identifier) @_attr arguments: (argument_list (simple_symbol) @name)
  (#any-of? @_attr "attr_reader" "attr_writer" "attr_accessor" "cattr_accessor" "mattr_accessor" "class_attribute" "delegate")) @definition.field
(module name: [(constant) (scope_resolution)] @name) @definition.module
(module name: [(constant) (scope_resolution)] @name body: (_) @body) @definition.module
(class name: [(constant) (scope_resolution)] @name) @definition.class
(class name: [(constant) (scope_resolution)] @name body: (_) @body) @definition.class
(assignment left: (constant) @name right: (call receiver: (constant) @_class method: (identifier) @_new block: (_) @body)
  (#any-of? @_class "Struct" "Class" "Module" "Data") (#any-of? @_new "new" "define")) @definition.class
(method name: (_) @name) @definition.method
(method name: (_) @name body: (_) @body) @definition.method
(singleton_method name: (_) @name) @definition.method
(singleton_method name: (_) @name body: (_) @body) @definition.method
(call method: (identifier) @_define arguments: (argument_list . (simple_symbol) @name) block: (_) @body
  (#any-of? @_define "define_method" "scope" "task" "let" "subject")) @definition.method
(alias name: (_) @name) @definition.method
(call method: (identifier) @_alias arguments: (argument_list . (simple_symbol) @name . (_))
  (#eq? @_alias "alias_method")) @definition.method
(call method: (identifier) @_call arguments: (argument_list . [(string) (constant) (scope_resolution)] @name) block: (_) @body
  (#any-of? @_call "describe" "context" "it" "specify" "test" "feature" "scenario" "shared_examples" "should")) @definition.test
