package counterpart

import (
	"maps"
	"slices"
)

var Names = names

// Variables returns the variables of the table, sorted.
func Variables() []string { return slices.Sorted(maps.Keys(variables)) }
