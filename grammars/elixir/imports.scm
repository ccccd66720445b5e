((call target: (identifier) @_import (arguments . [(alias) (dot)] @module)) @import
  (#any-of? @_import "alias" "import" "require" "use"))
((call target: (identifier) @_import (arguments . (alias) (keywords (pair key: (keyword) @_as value: (alias) @alias)))) @import
  (#set! imported "") (#any-of? @_import "alias" "require") (#like? @_as "^as:"))
