package console

import (
	"net/http"

	"ebb/web"
)

// routes is every path of the console.
func (s *Console) routes() []route {
	routes := []route{
		{web.Route{Method: http.MethodGet, Path: "/assets/:hash/:name"}, s.assets.serve},
		{web.Route{Method: http.MethodGet, Path: "/"}, s.guarded(s.home)},
		{web.Route{Method: http.MethodGet, Path: "/signin"}, s.guarded(s.signIn)},
		{web.Route{Method: http.MethodGet, Path: "/events"}, s.guarded(s.events)},
		s.form("/signout", true, s.signOut),
		s.page("/queue", s.queue),
		s.page("/requests/:id", s.request),
		s.page("/requests/:id/seen/:voter", s.seen),
		s.decideRoute(),
		s.page(togetherPath, s.together),
		s.page(togetherPath+"/challenge", s.togetherChallenge),
		s.form(togetherPath, false, s.approveTogether),
		s.page("/credentials", s.credentials),
		s.page("/credentials.csv", s.exportCredentials(formatCSV)),
		s.page("/credentials.jsonl", s.exportCredentials(formatJSONL)),
		s.page("/credentials/tail", s.tailCredentials),
		s.page("/credentials/:id", s.credential),
		s.form("/credentials/:id/revoke", true, s.revokeCredential),
		s.form("/credentials/:id/retry", false, s.retryCredential),
		s.form("/credentials/:id/force", false, s.forceCredential),
		s.page("/tasks", s.tasks),
		s.page("/tasks/:id", s.taskTimeline),
		s.page("/tasks/:id/tail", s.tailTask),
		s.form("/tasks/:id/stop", true, s.stopTask),
		s.form("/tasks/:id/deny", true, s.denyAll),
		s.form("/tasks/:id/resume", false, s.resumeTask),
		s.page("/tasks/:id/receipt", s.receipt),
		s.page("/requests/:id/again", s.again),
		s.page("/sandboxes/:id", s.sandbox),
		s.page("/audit", s.audit),
		s.page("/audit.csv", s.exportAudit(formatCSV)),
		s.page("/audit.jsonl", s.exportAudit(formatJSONL)),
		s.page("/audit/chains", s.chains(false)),
		s.page("/audit/check", s.chains(true)),
		s.page("/audit/:writer/:seq", s.entry),
		s.page(transcriptsPath, s.transcripts),
		s.page(transcriptsPath+".csv", s.exportTranscripts(formatCSV)),
		s.page(transcriptsPath+".jsonl", s.exportTranscripts(formatJSONL)),
		s.page(transcriptsPath+"/:id", s.transcript),
		s.page("/insights", s.insights),
		s.page("/policy", s.policy),
		s.page("/policy/releases/:number", s.release),
		s.form("/policy/drafts", false, s.beginDraft),
		s.page("/policy/drafts/:id", s.draft),
		s.page("/policy/drafts/:id/patch", s.patchDraft),
		s.page("/policy/drafts/:id/replay", s.replay),
		s.page("/policy/drafts/:id/file", s.draftFile),
		s.form("/policy/drafts/:id/file", false, s.saveFile),
		s.form("/policy/drafts/:id/rebase", false, s.rebaseDraft),
		s.form("/policy/drafts/:id/drop", false, s.dropDraft),
		s.form("/policy/drafts/:id/publish", false, s.publishDraft),
		s.page("/policy/drafts/:id/challenge", s.challengeForDraft),
		s.page("/policy/drafts/:id/again", s.againForDraft),
		s.page("/settings", s.settings),
		s.page("/settings/again", s.again),
		s.form("/settings/look", true, s.look),
		s.form("/settings/wishes", false, s.setWishes),
		s.page("/settings/passkeys/options", s.registerOptions),
		s.form("/settings/passkeys", false, s.addPasskey),
		s.form("/settings/passkeys/rename", false, s.renamePasskey),
		s.form("/settings/passkeys/remove", true, s.removePasskey),
		s.page("/requests/:id/challenge", s.challenge),
		s.form("/settings/sessions", true, s.endSessions),
	}
	routes = append(routes, s.glassRoutes()...)
	for _, m := range s.cfg.Methods {
		base := "/signin/" + m.Name()
		routes = append(routes,
			route{web.Route{Method: http.MethodGet, Path: base}, s.guarded(s.begin(m))},
			route{web.Route{Method: http.MethodPost, Path: base}, s.guarded(s.finish(m))},
			route{web.Route{Method: http.MethodGet, Path: base + "/callback"}, s.guarded(s.callback(m))},
		)
	}
	return routes
}
