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

	"github.com/ebb-broker/ebb/cmd/ebb/internal/box"
	"github.com/ebb-broker/ebb/cmd/ebb/internal/box/place"
)

// maxImage is the maximum length of an image's name, in bytes.
const maxImage = 512

// imageForm matches the name, digest or ID of an image (the reference grammar
// of distribution is narrower). It excludes options, line breaks and absolute
// paths.
var imageForm = regexp.MustCompile(`\A[A-Za-z0-9][A-Za-z0-9._/:@-]*\z`)

// CheckImage refuses a text that is not the name of an image.
func CheckImage(name string) error {
	switch {
	case name == "":
		return errors.New("the image name is empty")
	case len(name) > maxImage || !imageForm.MatchString(name) || strings.Contains(name, "//"):
		return fmt.Errorf("%.80q is not a valid image name", name)
	}
	return nil
}

// image is an image that the daemon has.
type image struct {
	id      string   // digest of its configuration, which determines the whole image
	volumes []string // paths that it declares as volumes
}

// idForm matches the daemon's ID of an image.
var idForm = regexp.MustCompile(`\Asha256:[0-9a-f]{64}\z`)

// image finds an image of the daemon. It pulls none, so that a sandbox never
// runs an image that was just published under that name.
func (c *client) image(name string) (image, error) {
	var found []struct {
		ID     string `json:"Id"`
		Config struct{ Volumes map[string]any }
	}
	if err := c.json(&found, "image", "inspect", "--", name); err != nil {
		return image{}, fmt.Errorf("the daemon does not have the image %s; pull it with `docker pull %[1]s`, preferably by its digest: %w", name, err)
	}
	if len(found) != 1 || !idForm.MatchString(found[0].ID) {
		return image{}, fmt.Errorf("%s does not name exactly one image", name)
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

// checkVolume refuses a declared volume at a path that the sandbox uses itself.
func checkVolume(v string) error {
	if !volumeForm.MatchString(v) || path.Clean(v) != v {
		return fmt.Errorf("the image declares a volume at %.80q, which is not a supported path", v)
	}
	for _, own := range []string{box.Dir, box.WorkDir, box.Home, "/dev", "/etc", "/proc", "/sys", "/tmp", "/var/tmp"} {
		if v != box.WorkDir && !isTemporary(v) && (place.Within(v, own) || place.Within(own, v)) {
			return fmt.Errorf("the image declares a volume at %s, which the sandbox uses itself", v)
		}
	}
	return nil
}
