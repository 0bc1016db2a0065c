package github

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/secret"
)

// known remembers which id a name had when it was first looked up. A name can be
// given to another repository, an id cannot. It grows with the repositories that
// the App can reach and is not needed after a restart.
type known struct {
	pinned map[string]int64

	mu  sync.Mutex
	ids map[string]int64
}

func newKnown(pinned map[string]int64) *known {
	return &known{pinned: pinned, ids: map[string]int64{}}
}

// of returns the ids that are known and the names that must be looked up.
func (k *known) of(names []string) (ids map[string]int64, unknown []string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	ids = map[string]int64{}
	for _, name := range names {
		id := k.pinned[name]
		if id == 0 {
			id = k.ids[name]
		}
		if id == 0 {
			unknown = append(unknown, name)
			continue
		}
		ids[name] = id
	}
	return ids, unknown
}

// lookedUp lists those of names that are not pinned.
func (k *known) lookedUp(names []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(n string) bool { return k.pinned[n] != 0 })
}

// learn stores the ids of a look-up. If a name had another id before, it returns an error and
// keeps the first id: the approver of the name meant that repository.
func (k *known) learn(m minted) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, r := range m.Repositories {
		if had := k.ids[r.Name]; had != 0 && had != r.ID {
			return &movedError{name: r.Name, from: had, to: r.ID}
		}
	}
	for _, r := range m.Repositories {
		k.ids[r.Name] = r.ID
	}
	return nil
}

// movedError says that a name belongs to another repository than before.
type movedError struct {
	name     string
	from, to int64
}

func (e *movedError) Error() string {
	return fmt.Sprintf("%s was repository %d and is %d now: find out why, and pin the right one under repositories", e.name, e.from, e.to)
}

// lookUp asks GitHub for the ids of some of an ask's names, with a token that can
// read their metadata and is taken back at once: an App has no other way to an id.
// left is a token that could not be taken back.
func (d *Driver) lookUp(ctx context.Context, a ask, names []string) (left secret.Secret, err error) {
	look := ask{owner: a.owner, repositories: names, permissions: map[string]string{metadata: readLevel}, words: a.words}
	body := request{Permissions: look.permissions}
	for _, full := range names {
		_, name, _ := strings.Cut(full, "/")
		body.Repositories = append(body.Repositories, name)
	}
	m, _, err := d.post(ctx, look, body)
	if err != nil {
		return secret.Secret{}, err
	}
	token := secret.New(m.Token)
	if err := d.takeBack(ctx, token); err != nil {
		// Not wrapped: a limit met here does not mean that nothing was made.
		return token, fmt.Errorf("taking back the token of a look-up: %v", err)
	}
	if err := m.differs(look, nil); err != nil {
		return secret.Secret{}, provider.Refused("GitHub knows a repository of the request under another name. Spell owner and repository as GitHub does.", err)
	}
	if err := d.known.learn(m); err != nil {
		d.cfg.Logger.ErrorContext(ctx, "a repository's name belongs to another repository now", "error", err)
		return secret.Secret{}, provider.Refused("The name of a repository belongs to another repository than before. The operator of ebb must pin the right one.", err)
	}
	return secret.Secret{}, nil
}
