package requests

import (
	"slices"
	"testing"

	"github.com/ebb-broker/ebb/web/console/internal/shell"
)

// The card "Facts of all requests" has no earlier requests that only one request of the group has.
func TestShareEarlierRequests(t *testing.T) {
	t.Parallel()
	one, both := shell.Line{Label: "History", Text: "5 requests before, 5 approved"}, shell.Line{Label: "Repeated", Text: "asked 2 times"}
	all := []shown{{Before: []shell.Line{one, both}}, {Before: []shell.Line{both}}}
	shared, _ := share(all)
	if !slices.Equal(shared.Before, []shell.Line{both}) {
		t.Errorf("of all requests: %+v", shared.Before)
	}
	if !slices.Equal(all[0].Before, []shell.Line{one}) || len(all[1].Before) != 0 {
		t.Errorf("of the first: %+v; of the second: %+v", all[0].Before, all[1].Before)
	}
}
