package counterpart

import (
	"maps"
	"slices"
)

var Names = names

// Variables are those of the table.
func Variables() []string { return slices.Sorted(maps.Keys(variables)) }
