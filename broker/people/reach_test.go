package people_test

import (
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker/people"
)

func TestQuietUntil(t *testing.T) {
	t.Parallel()
	at := func(s string) time.Time {
		x, err := time.Parse(time.RFC3339, s)
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	for _, tt := range []struct {
		name     string
		from, to int
		zone     string
		at, want string
	}{
		{"none", 0, 0, "", "2026-11-20T03:00:00Z", "2026-11-20T03:00:00Z"},
		{"none all day", 600, 600, "", "2026-11-20T10:00:00Z", "2026-11-20T10:00:00Z"},
		{"before", 22 * 60, 6 * 60, "", "2026-11-20T21:59:59Z", "2026-11-20T21:59:59Z"},
		{"begins", 22 * 60, 6 * 60, "", "2026-11-20T22:00:00Z", "2026-11-21T06:00:00Z"},
		{"after midnight", 22 * 60, 6 * 60, "", "2026-11-21T05:59:59Z", "2026-11-21T06:00:00Z"},
		{"ends", 22 * 60, 6 * 60, "", "2026-11-21T06:00:00Z", "2026-11-21T06:00:00Z"},
		{"in the day", 12 * 60, 13 * 60, "", "2026-11-21T12:30:00Z", "2026-11-21T13:00:00Z"},
		{"elsewhere", 22 * 60, 6 * 60, "America/New_York", "2026-11-21T10:00:00Z", "2026-11-21T11:00:00Z"},
		{"not there", 22 * 60, 6 * 60, "America/New_York", "2026-11-20T22:00:00Z", "2026-11-20T22:00:00Z"},
		{"the night that is longer", 22 * 60, 6 * 60, "Europe/Berlin", "2026-10-24T20:30:00Z", "2026-10-25T05:00:00Z"},
		{"the night that is shorter", 22 * 60, 6 * 60, "Europe/Berlin", "2026-03-28T21:30:00Z", "2026-03-29T04:00:00Z"},
		{"no zone", 22 * 60, 6 * 60, "Mars/Phobos", "2026-11-20T23:00:00Z", "2026-11-20T23:00:00Z"},
	} {
		w := people.DefaultPreferences()
		w.QuietFrom, w.QuietTo, w.Zone = tt.from, tt.to, tt.zone
		if got := w.QuietUntil(at(tt.at)); !got.Equal(at(tt.want)) {
			t.Errorf("%s: got %s, want %s", tt.name, got.UTC().Format(time.RFC3339), tt.want)
		}
	}
}
