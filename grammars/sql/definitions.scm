(comment) @comment
(marginalia) @comment

(statement (create_table (object_reference name: (identifier) @name) (column_definitions)? @body)) @definition.table
(statement (create_view (object_reference name: (identifier) @name) (create_query)? @body)) @definition.view
(statement (create_materialized_view (object_reference name: (identifier) @name) (create_query)? @body)) @definition.view
(statement (create_function (object_reference name: (identifier) @name) (function_body)? @body)) @definition.function
(statement (create_procedure (object_reference name: (identifier) @name))) @definition.function
(statement (create_type (object_reference name: (identifier) @name))) @definition.type
(statement (create_trigger (keyword_trigger) . (object_reference name: (identifier) @name))) @definition.trigger
(statement (create_index column: (identifier) @name)) @definition.index
(statement (create_sequence (object_reference name: (identifier) @name))) @definition.type
(statement (create_schema (identifier) @name)) @definition.namespace
(column_definition name: (identifier) @name) @definition.field
