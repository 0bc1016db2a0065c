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

// bury removes boxes of this user's runs that were killed, whose directory is gone. A label may be
// an image's: the name says that it was a run of ebb's.
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
			_, _ = c.say("rm", "--force", "--volumes", name) // what stays is tried again by the next run
		}
	}
	return nil
}
