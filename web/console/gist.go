package console

import (
	"sync"

	"ebb/broker"
	"ebb/broker/agenttext"
	"ebb/broker/risk"
)

// gist is what a row of the queue says of the facts of a request. To read them strictly is
// most of what the page costs, and they never change: what has their digest is read once.
// Who decides looks at the facts themselves, on another page.
type gist struct {
	level      risk.Level
	name       string // of the task
	taint      bool
	understood bool
}

// maxGists is how many are kept: those of twenty pages.
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
