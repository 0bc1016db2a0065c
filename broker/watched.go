package broker

import (
	"context"
	"sync"
)

// watched is what this process watches.
type watched struct {
	mu        sync.Mutex
	stops     map[string]context.CancelFunc // by task
	elsewhere map[string]bool               // tasks whose sandboxes are not seen from here
	newcomers chan string                   // tasks that have just got their sandbox
}

// add says whether the task's sandbox was not watched yet, and is from here.
func (w *watched) add(taskID string, stop context.CancelFunc) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, on := w.stops[taskID]; on || w.elsewhere[taskID] {
		return false
	}
	w.stops[taskID] = stop
	return true
}

func (w *watched) away(taskID string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.elsewhere[taskID] = true
	delete(w.stops, taskID)
}

// keep lets go of all but those tasks.
func (w *watched) keep(open map[string]bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for id, stop := range w.stops {
		if !open[id] {
			stop()
			delete(w.stops, id)
		}
	}
	for id := range w.elsewhere {
		if !open[id] {
			delete(w.elsewhere, id)
		}
	}
}

func (w *watched) stopAll() { w.keep(nil) }
