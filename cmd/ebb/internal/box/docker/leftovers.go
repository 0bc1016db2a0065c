//go:build linux

package docker

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

var nameForm = regexp.MustCompile(`\A` + namePrefix + `[a-z2-7]{26}\z`)

// bury removes sandboxes of this user's killed runs, whose directory is gone.
// An image can set the same labels, so the name must also be one that ebb
// generates.
func (c *client) bury() error {
	text, err := c.say("ps", "--all", "--no-trunc", "--filter", "label="+labelUser+"="+strconv.Itoa(os.Geteuid()), "--format", `{{.Names}} {{.Label "`+labelKeep+`"}}`)
	if err != nil {
		return err
	}
	for line := range strings.Lines(text) {
		name, keep, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		if !nameForm.MatchString(name) || !filepath.IsAbs(keep) {
			continue
		}
		if _, err := os.Lstat(keep); errors.Is(err, fs.ErrNotExist) {
			_, _ = c.say("rm", "--force", "--volumes", name) // the next run tries again if it fails
		}
	}
	return nil
}
