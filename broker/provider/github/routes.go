package github

// routes are the requests below /repos/{owner}/{repository} of each permission, by its level. They
// follow GitHub's "Permissions required for GitHub Apps" (REST versions 2022-11-28 and
// 2026-03-10), as far as they concern one repository. Other requests are denied.
//
// Some requests of that page are left out on purpose. Their responses hold or lead to another
// credential: archives, logs, and files of releases and artifacts redirect to a signed URL;
// runners have registration tokens; and the repository itself may hold a clone token
// (temp_clone_token). Approving waiting deployments is left out as well. A comment on a commit
// needs write here, although GitHub lists it under read. Signed URLs of files and pictures, which
// are valid for minutes, are redacted (disclosed).
//
// In a pattern, * is one segment without an encoded slash, # is a segment of digits, and ** is the
// rest.
var routes = map[string]map[string]string{
	"metadata": {"read": `
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
GET /rulesets/#
GET /stargazers
GET /stats/*
GET /subscribers
GET /tags
GET /topics`},
	"contents": {"read": `
GET /activity
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
GET /pulls/#
GET /readme
GET /readme/**
GET /releases
GET /releases/*
GET /releases/*/assets
GET /releases/tags/**`, "write": `
POST /branches/*/rename
POST /commits/*/comments
DELETE /comments/*
PATCH /comments/*
POST /comments/*/reactions
DELETE /comments/*/reactions/*
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
GET /issues/*/dependencies/blocked_by
GET /issues/*/dependencies/blocking
GET /issues/*/events
GET /issues/*/labels
GET /issues/*/parent
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
POST /issues/*/dependencies/blocked_by
DELETE /issues/*/dependencies/blocked_by/*
PUT /issues/*/lock
DELETE /issues/*/lock
POST /issues/*/reactions
DELETE /issues/*/reactions/*
DELETE /issues/*/sub_issue
POST /issues/*/sub_issues
PATCH /issues/*/sub_issues/priority
PATCH /issues/comments/*
DELETE /issues/comments/*
PUT /issues/comments/*/pin
DELETE /issues/comments/*/pin
POST /issues/comments/*/reactions
DELETE /issues/comments/*/reactions/*
POST /labels
PATCH /labels/**
DELETE /labels/**
POST /milestones
PATCH /milestones/*
DELETE /milestones/*`},
	"pull_requests": pullRoutes,
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
GET /actions/runs/*/pending_deployments
GET /actions/runs/*/timing
GET /actions/workflows
GET /actions/workflows/*
GET /actions/workflows/*/runs
GET /actions/workflows/*/timing
GET /environments
GET /environments/*
GET /environments/*/deployment-branch-policies
GET /environments/*/deployment-branch-policies/*
GET /environments/*/deployment_protection_rules
GET /environments/*/deployment_protection_rules/#`, "write": `
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
	// Each route of workflows requires contents as well, and is listed there.
	"workflows": {"write": ""},
}

// pullRoutes are the routes of pull_requests. A pull request is an issue too: routes for
// both need either permission, and routes for an issue alone need issues.
var pullRoutes = map[string]string{"read": `
GET /assignees
GET /assignees/*
GET /commits/*/pulls
GET /issues/*/assignees/*
GET /issues/*/comments
GET /issues/*/events
GET /issues/*/labels
GET /issues/*/timeline
GET /issues/comments
GET /issues/comments/*
GET /issues/events/*
GET /labels
GET /labels/**
GET /milestones
GET /milestones/*
GET /milestones/*/labels
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
PATCH /issues/#
POST /issues/*/assignees
DELETE /issues/*/assignees
POST /issues/*/comments
POST /issues/*/labels
PUT /issues/*/labels
DELETE /issues/*/labels
DELETE /issues/*/labels/**
PUT /issues/*/lock
DELETE /issues/*/lock
PATCH /issues/comments/*
DELETE /issues/comments/*
POST /labels
PATCH /labels/**
DELETE /labels/**
POST /milestones
PATCH /milestones/*
DELETE /milestones/*
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
DELETE /pulls/comments/*/reactions/*`}
