package github

import (
	"net/http"
	"slices"
	"strings"

	"ebb/broker/exact"
)

// routes are the requests below /repos/{owner}/{repository} that a permission is for, by
// its level: those of GitHub's "Permissions required for GitHub Apps" (REST version
// 2022-11-28), as far as they concern one repository. What is not here is denied. Left out
// on purpose is what answers with a credential of its own or leads to one: archives, logs,
// files of releases and artifacts, which are a redirect to a signed URL, and registration
// tokens of runners. * is one segment without an encoded slash, ** all that follows.
var routes = map[string]map[string]string{
	"metadata": {"read": `
GET /
GET /collaborators
GET /collaborators/*
GET /collaborators/*/permission
GET /comments
GET /comments/*
GET /comments/*/reactions
GET /commits/*/comments
GET /contributors
GET /events
GET /forks
GET /languages
GET /license
GET /properties/values
GET /rules/branches/**
GET /rulesets
GET /rulesets/*
GET /stargazers
GET /stats/*
GET /subscribers
GET /tags
GET /topics`},
	"contents": {"read": `
GET /branches
GET /branches/*
GET /codeowners/errors
GET /commits
GET /commits/*
GET /commits/*/branches-where-head
GET /compare/**
GET /contents
GET /contents/**
GET /git/blobs/*
GET /git/commits/*
GET /git/matching-refs/**
GET /git/ref/**
GET /git/tags/*
GET /git/trees/**
GET /readme
GET /readme/**
GET /releases
GET /releases/*
GET /releases/*/assets
GET /releases/tags/**`, "write": `
DELETE /comments/*
PATCH /comments/*
POST /comments/*/reactions
DELETE /comments/*/reactions/*
POST /commits/*/comments
PUT /contents/**
DELETE /contents/**
POST /dispatches
POST /git/blobs
POST /git/commits
POST /git/refs
PATCH /git/refs/**
DELETE /git/refs/**
POST /git/tags
POST /git/trees
POST /merge-upstream
POST /merges
PUT /pulls/*/merge
POST /releases
POST /releases/generate-notes
PATCH /releases/*
DELETE /releases/*
PATCH /releases/assets/*
DELETE /releases/assets/*`},
	"issues": {"read": `
GET /assignees
GET /assignees/*
GET /issues
GET /issues/*
GET /issues/*/assignees/*
GET /issues/*/comments
GET /issues/*/events
GET /issues/*/labels
GET /issues/*/reactions
GET /issues/*/sub_issues
GET /issues/*/timeline
GET /issues/comments/*
GET /issues/comments/*/reactions
GET /issues/events/*
GET /labels
GET /labels/**
GET /milestones
GET /milestones/*
GET /milestones/*/labels`, "write": `
POST /issues
PATCH /issues/*
POST /issues/*/assignees
DELETE /issues/*/assignees
POST /issues/*/comments
POST /issues/*/labels
PUT /issues/*/labels
DELETE /issues/*/labels
DELETE /issues/*/labels/**
PUT /issues/*/lock
DELETE /issues/*/lock
POST /issues/*/reactions
DELETE /issues/*/reactions/*
DELETE /issues/*/sub_issue
POST /issues/*/sub_issues
PATCH /issues/*/sub_issues/priority
PATCH /issues/comments/*
DELETE /issues/comments/*
POST /issues/comments/*/reactions
DELETE /issues/comments/*/reactions/*
POST /labels
PATCH /labels/**
DELETE /labels/**
POST /milestones
PATCH /milestones/*
DELETE /milestones/*`},
	"pull_requests": {"read": `
GET /commits/*/pulls
GET /pulls
GET /pulls/*
GET /pulls/*/comments
GET /pulls/*/commits
GET /pulls/*/files
GET /pulls/*/merge
GET /pulls/*/requested_reviewers
GET /pulls/*/reviews
GET /pulls/*/reviews/*
GET /pulls/*/reviews/*/comments
GET /pulls/comments
GET /pulls/comments/*
GET /pulls/comments/*/reactions`, "write": `
POST /pulls
PATCH /pulls/*
POST /pulls/*/comments
POST /pulls/*/comments/*/replies
POST /pulls/*/requested_reviewers
DELETE /pulls/*/requested_reviewers
POST /pulls/*/reviews
PUT /pulls/*/reviews/*
DELETE /pulls/*/reviews/*
PUT /pulls/*/reviews/*/dismissals
POST /pulls/*/reviews/*/events
PUT /pulls/*/update-branch
PATCH /pulls/comments/*
DELETE /pulls/comments/*
POST /pulls/comments/*/reactions
DELETE /pulls/comments/*/reactions/*`},
	"actions": {"read": `
GET /actions/artifacts
GET /actions/artifacts/*
GET /actions/cache/usage
GET /actions/caches
GET /actions/jobs/*
GET /actions/runs
GET /actions/runs/*
GET /actions/runs/*/approvals
GET /actions/runs/*/artifacts
GET /actions/runs/*/attempts/*
GET /actions/runs/*/attempts/*/jobs
GET /actions/runs/*/jobs
GET /actions/runs/*/timing
GET /actions/workflows
GET /actions/workflows/*
GET /actions/workflows/*/runs
GET /actions/workflows/*/timing`, "write": `
DELETE /actions/artifacts/*
DELETE /actions/caches
DELETE /actions/caches/*
POST /actions/jobs/*/rerun
DELETE /actions/runs/*
POST /actions/runs/*/approve
POST /actions/runs/*/cancel
POST /actions/runs/*/force-cancel
DELETE /actions/runs/*/logs
POST /actions/runs/*/rerun
POST /actions/runs/*/rerun-failed-jobs
PUT /actions/workflows/*/disable
POST /actions/workflows/*/dispatches
PUT /actions/workflows/*/enable`},
	"checks": {"read": `
GET /check-runs/*
GET /check-runs/*/annotations
GET /check-suites/*
GET /check-suites/*/check-runs
GET /commits/*/check-runs
GET /commits/*/check-suites`, "write": `
POST /check-runs
PATCH /check-runs/*
POST /check-runs/*/rerequest
POST /check-suites
PATCH /check-suites/preferences
POST /check-suites/*/rerequest`},
	"statuses": {"read": `
GET /commits/*/status
GET /commits/*/statuses`, "write": `
POST /statuses/*`},
	"deployments": {"read": `
GET /deployments
GET /deployments/*
GET /deployments/*/statuses
GET /deployments/*/statuses/*`, "write": `
POST /deployments
DELETE /deployments/*
POST /deployments/*/statuses
POST /actions/runs/*/deployment_protection_rule`},
}

// route is a line of the table.
type route struct {
	method  string
	pattern []string
}

func (r route) matches(below []string) bool {
	for i, want := range r.pattern {
		if want == "*" && i < len(below) && strings.Contains(below[i], "%2f") {
			return false
		}
	}
	return exact.Matches(r.pattern, below)
}

// table is routes, read once: by permission and level.
var table = func() map[string]map[string][]route {
	out := map[string]map[string][]route{}
	for permission, levels := range routes {
		out[permission] = map[string][]route{}
		for level, text := range levels {
			for line := range strings.Lines(strings.TrimSpace(text)) {
				method, path, _ := strings.Cut(strings.TrimSpace(line), " ")
				var pattern []string
				if path != "/" {
					pattern = strings.Split(path[1:], "/")
				}
				out[permission][level] = append(out[permission][level], route{method, pattern})
			}
		}
	}
	return out
}()

// covers reports whether a request below a repository is one that these permissions are
// for. below is
// its path there. HEAD is GET without the body of its answer
// (RFC 9110 section 9.3.2).
func covers(permissions map[string]string, method string, below []string) bool {
	if method == http.MethodHead {
		method = http.MethodGet
	}
	for permission, have := range permissions {
		for level, lines := range table[permission] {
			if !atLeast(have, level) {
				continue
			}
			if slices.ContainsFunc(lines, func(r route) bool {
				return r.method == method && r.matches(below)
			}) {
				return true
			}
		}
	}
	return false
}
