package console

import (
	"sync"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/agenttext"
	"github.com/ebb-broker/ebb/broker/risk"
)

// gist is the summary of a request's facts for a row of the queue. Parsing the
// facts strictly is most of the cost of the page, and facts never change, so
// each digest is parsed once. Approvers decide on another page, which shows the
// facts themselves.
type gist struct {
	level      risk.Level
	name       string // of the task
	taint      bool
	understood bool
}

// maxGists limits the cache to the rows of 20 pages.
const maxGists = 20 * queueRows

type gists struct {
	mu    sync.Mutex
	known map[[2]string]gist // by request and digest
}

func (g *gists) of(r broker.Request) gist {
	key := [2]string{r.ID, r.Digest}
	g.mu.Lock()
	out, is := g.known[key]
	g.mu.Unlock()
	if is {
		return out
	}
	out.level = risk.High
	if f, err := r.Sheet(); err == nil {
		out = gist{f.Level(), agenttext.ShowLine(agenttext.From(f.TaskName), 80), len(f.Taint) > 0, f.Understood()}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.known == nil || len(g.known) >= maxGists {
		g.known = map[[2]string]gist{}
	}
	g.known[key] = out
	return out
}
