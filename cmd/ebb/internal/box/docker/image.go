//go:build linux

package docker

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"ebb/cmd/ebb/internal/box"
	"ebb/cmd/ebb/internal/box/place"
)

// maxImage is how long the name of an image may be.
const maxImage = 512

// imageForm is what a name of an image is made of, by name, digest or id (distribution's reference
// grammar is narrower): nothing that begins an option, ends a line or looks like a path.
var imageForm = regexp.MustCompile(`\A[A-Za-z0-9][A-Za-z0-9._/:@-]*\z`)

// CheckImage refuses what is no name of an image.
func CheckImage(name string) error {
	switch {
	case name == "":
		return errors.New("no image is named")
	case len(name) > maxImage || !imageForm.MatchString(name) || strings.Contains(name, "//"):
		return fmt.Errorf("%.80q is no name of an image", name)
	}
	return nil
}

// image is one that the daemon has.
type image struct {
	id      string   // of its configuration, which says what all of it is
	volumes []string // places that it wants to be written to
}

// idForm is what the daemon calls an image.
var idForm = regexp.MustCompile(`\Asha256:[0-9a-f]{64}\z`)

// image finds one. None is fetched: who runs a box should not run what somebody has just published.
func (c *client) image(name string) (image, error) {
	var found []struct {
		ID     string `json:"Id"`
		Config struct{ Volumes map[string]any }
	}
	if err := c.json(&found, "image", "inspect", "--", name); err != nil {
		return image{}, fmt.Errorf("the image %s is not there: fetch it with `docker pull %[1]s`, best by its digest: %w", name, err)
	}
	if len(found) != 1 || !idForm.MatchString(found[0].ID) {
		return image{}, fmt.Errorf("the name %s is not that of one image", name)
	}
	i := image{id: found[0].ID, volumes: slices.Sorted(maps.Keys(found[0].Config.Volumes))}
	for _, v := range i.volumes {
		if err := checkVolume(v); err != nil {
			return image{}, err
		}
	}
	return i, nil
}

var volumeForm = regexp.MustCompile(`\A(/[A-Za-z0-9._-]+)+\z`)

// checkVolume refuses a place that an image declares where a box has what is its own.
func checkVolume(v string) error {
	if !volumeForm.MatchString(v) || path.Clean(v) != v {
		return fmt.Errorf("the image declares a volume at %.80q, which no box has", v)
	}
	for _, own := range []string{box.Dir, box.WorkDir, box.Home, "/dev", "/etc", "/proc", "/sys", "/tmp", "/var/tmp"} {
		if v != box.WorkDir && !isTemporary(v) && (place.Within(v, own) || place.Within(own, v)) {
			return fmt.Errorf("the image declares a volume at %s, where a box has what is its own", v)
		}
	}
	return nil
}
