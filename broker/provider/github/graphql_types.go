package github

import "strings"

// graphQLTypes are the types of GitHub's GraphQL schema that a request may reach, and their fields.
// Other types and fields are denied. A line is a type, its need after @, and its fields. A field
// without a colon is a scalar. Otherwise the name of its type follows, in brackets when it is a
// connection or an edge.
//
// A need is a permission, at the level read; of several with | between them any one suffices. It
// applies where an object of the type is reached: by a field, or by a type condition of a fragment.
// A need after the field's type replaces it. An @ with nothing after it means that the object is
// part of its parent.
//
// Repository is the one that a request names. Repositories that another object refers to are
// linkedRepository: they have names, and nothing that a permission is for.
//
// Left out on purpose are tempCloneToken of a repository, which is a credential, and the URLs of
// archives (tarballUrl, zipballUrl).
const graphQLTypes = `
Query: repository:Repository node:Node nodes:Node viewer:User user:User organization:Organization search:[SearchResultItem] rateLimit:RateLimit __schema:__Schema __type:__Schema
Mutation: ` + graphQLPayload + `
RateLimit: cost limit nodeCount remaining resetAt used
Node: id
Repository: ` + graphQLRepository + ` assignableUsers:[User]@issues|pull_requests mentionableUsers:[User]@issues|pull_requests suggestedActors:[Actor]@issues|pull_requests collaborators:[User] issue:Issue issues:[Issue] issueOrPullRequest:IssueOrPullRequest pinnedIssues:[PinnedIssue] issueTypes:[IssueType] label:Label labels:[Label] milestone:Milestone milestones:[Milestone] pullRequest:PullRequest pullRequests:[PullRequest] issueTemplates:IssueTemplate pullRequestTemplates:PullRequestTemplate projects:[Project] projectsV2:[ProjectV2] object:GitObject ref:Ref refs:[Ref] release:Release releases:[Release] latestRelease:Release
linkedRepository: ` + graphQLRepository + `
Language: color id name
License: description id key name nickname spdxId url
Topic: id name
RepositoryTopic: id topic:Topic url
PageInfo: endCursor hasNextPage hasPreviousPage startCursor
StateCount: count state

Actor: avatarUrl login resourcePath url
User: avatarUrl createdAt databaseId email id isViewer login name resourcePath url
Bot: avatarUrl databaseId id login resourcePath url
Mannequin: avatarUrl databaseId id login resourcePath url
EnterpriseUserAccount: avatarUrl id login name resourcePath url
RepositoryOwner: avatarUrl id login resourcePath url
Organization: avatarUrl databaseId description id login name resourcePath url teams:[Team]@members team:Team@members projects:[Project] projectsV2:[ProjectV2]
Team: combinedSlug description id name organization:Organization privacy resourcePath slug url
RequestedReviewer:
GitActor: avatarUrl date email name user:User

Project@repository_projects|organization_projects: closed id name number resourcePath state url
ProjectCard@repository_projects|organization_projects: id isArchived note column:ProjectColumn@ project:Project@
ProjectColumn@repository_projects|organization_projects: id name
ProjectV2@repository_projects|organization_projects: closed id number public resourcePath shortDescription title url
ProjectV2Item@repository_projects|organization_projects: id isArchived type project:ProjectV2@ fieldValueByName:ProjectV2ItemFieldValue
ProjectV2ItemFieldValue:
ProjectV2ItemFieldSingleSelectValue: color description id name optionId

SearchResultItem:
IssueOrPullRequest@issues|pull_requests:
Lockable: activeLockReason locked
Labelable: labels:[Label]
Assignable: assignees:[User] assignedActors:[Actor]
ReactionGroup: content createdAt viewerHasReacted users:[User]
Label@issues|pull_requests: color createdAt description id isDefault name resourcePath updatedAt url
Milestone@issues|pull_requests: closed closedAt createdAt description dueOn id number progressPercentage resourcePath state title updatedAt url creator:Actor
IssueType@issues: color description id isEnabled name
Issue@issues: ` + graphQLConversation + ` bodyResourcePath bodyUrl isPinned stateReason issueType:IssueType closedByPullRequestsReferences:[PullRequest] linkedBranches:[LinkedBranch] parent:Issue subIssues:[Issue] subIssuesSummary:SubIssuesSummary
SubIssuesSummary: completed percentCompleted total
PinnedIssue@issues: id issue:Issue pinnedBy:Actor
LinkedBranch@issues: id ref:Ref@
IssueComment@issues|pull_requests: ` + graphQLComment + ` issue:Issue pullRequest:PullRequest

PullRequest@pull_requests: ` + graphQLConversation + ` additions baseRefName baseRefOid canBeRebased changedFiles checksResourcePath checksUrl deletions headRefName headRefOid isCrossRepository isDraft isInMergeQueue isMergeQueueEnabled maintainerCanModify mergeStateStatus mergeable merged mergedAt permalink reviewDecision totalCommentsCount viewerCanDeleteHeadRef viewerCanDisableAutoMerge viewerCanEnableAutoMerge viewerCanMergeAsAdmin viewerCanUpdateBranch viewerMergeBodyText viewerMergeHeadlineText autoMergeRequest:AutoMergeRequest baseRef:Ref@ headRef:Ref@ baseRepository:linkedRepository headRepository:linkedRepository headRepositoryOwner:RepositoryOwner closingIssuesReferences:[Issue] commits:[PullRequestCommit] files:[PullRequestChangedFile] mergeCommit:Commit@ potentialMergeCommit:Commit@ mergedBy:Actor reviewRequests:[ReviewRequest] reviews:[PullRequestReview] latestReviews:[PullRequestReview] latestOpinionatedReviews:[PullRequestReview] viewerLatestReview:PullRequestReview reviewThreads:[PullRequestReviewThread] statusCheckRollup:StatusCheckRollup suggestedReviewers:SuggestedReviewer suggestedReviewerActors:[SuggestedReviewer]
AutoMergeRequest@pull_requests: authorEmail commitBody commitHeadline enabledAt mergeMethod enabledBy:Actor
PullRequestCommit@pull_requests: id resourcePath url commit:Commit@
PullRequestChangedFile@pull_requests: additions changeType deletions path viewerViewedState
PullRequestReview@pull_requests: ` + graphQLComment + ` authorCanPushToRepository state submittedAt comments:[PullRequestReviewComment] commit:Commit@ pullRequest:PullRequest
PullRequestReviewComment@pull_requests: ` + graphQLComment + ` diffHunk draftedAt line originalLine originalPosition originalStartLine outdated path position startLine state subjectType commit:Commit@ originalCommit:Commit@ pullRequest:PullRequest pullRequestReview:PullRequestReview replyTo:PullRequestReviewComment
PullRequestReviewThread@pull_requests: diffSide id isCollapsed isOutdated isResolved line originalLine originalStartLine path startDiffSide startLine subjectType viewerCanReply viewerCanResolve viewerCanUnresolve comments:[PullRequestReviewComment] pullRequest:PullRequest resolvedBy:User
ReviewRequest@pull_requests: asCodeOwner databaseId id requestedReviewer:RequestedReviewer
SuggestedReviewer@pull_requests: isAuthor isCommenter reviewer:User

StatusCheckRollup@checks|statuses: id state contexts:[StatusCheckRollupContext]
StatusCheckRollupContext:
StatusContext@statuses: avatarUrl context createdAt description id isRequired state targetUrl creator:Actor
CheckRun@checks: completedAt conclusion databaseId detailsUrl externalId id isRequired name permalink resourcePath startedAt status summary text title url checkSuite:CheckSuite
CheckSuite@checks: conclusion createdAt databaseId id resourcePath status updatedAt url app:App workflowRun:WorkflowRun@
App: id name slug url
WorkflowRun@actions: createdAt databaseId event id resourcePath runNumber updatedAt url workflow:Workflow@
Workflow@actions: databaseId id name resourcePath state url

GitObject@contents: abbreviatedOid commitResourcePath commitUrl id oid
Ref@contents: id name prefix target:GitObject compare:Comparison branchProtectionRule:BranchProtectionRule repository:linkedRepository
BranchProtectionRule: id pattern requiredApprovingReviewCount requiredStatusCheckContexts requiresApprovingReviews requiresStatusChecks requiresStrictStatusChecks
Comparison@contents: aheadBy behindBy id status commits:[Commit]
Commit@contents: abbreviatedOid additions authoredByCommitter authoredDate changedFilesIfAvailable commitResourcePath commitUrl committedDate committedViaWeb deletions id message messageBody messageHeadline oid url author:GitActor authors:[GitActor] committer:GitActor statusCheckRollup:StatusCheckRollup associatedPullRequests:[PullRequest] history:[Commit] parents:[Commit] tree:Tree file:TreeEntry repository:linkedRepository
Tag@contents: abbreviatedOid id message name oid tagger:GitActor target:GitObject
Tree@contents: abbreviatedOid id oid entries:TreeEntry
TreeEntry@contents: extension isGenerated lineCount mode name oid path size type object:GitObject
Blob@contents: abbreviatedOid byteSize id isBinary isTruncated oid text
Release@contents: createdAt databaseId description id isDraft isLatest isPrerelease name publishedAt resourcePath tagName updatedAt url author:User tagCommit:Commit
IssueTemplate@contents: about body filename name title
PullRequestTemplate@contents: body filename
`

// graphQLRepository are the fields of a repository that every token for it may read.
const graphQLRepository = "allowUpdateBranch archivedAt autoMergeAllowed createdAt databaseId deleteBranchOnMerge description diskUsage forkCount hasDiscussionsEnabled hasIssuesEnabled hasProjectsEnabled hasWikiEnabled homepageUrl id isArchived isBlankIssuesEnabled isDisabled isEmpty isFork isInOrganization isLocked isMirror isPrivate isSecurityPolicyEnabled isTemplate isUserConfigurationRepository lockReason mergeCommitAllowed mergeCommitMessage mergeCommitTitle mirrorUrl name nameWithOwner openGraphImageUrl pushedAt rebaseMergeAllowed resourcePath squashMergeAllowed squashMergeCommitMessage squashMergeCommitTitle sshUrl stargazerCount updatedAt url usesCustomOpenGraphImage viewerCanAdminister viewerDefaultCommitEmail viewerDefaultMergeMethod viewerHasStarred viewerPermission viewerPossibleCommitEmails viewerSubscription visibility webCommitSignoffRequired owner:RepositoryOwner defaultBranchRef:Ref@ parent:linkedRepository templateRepository:linkedRepository languages:[Language] primaryLanguage:Language licenseInfo:License repositoryTopics:[RepositoryTopic]"

// graphQLComment are the fields of a comment of any kind.
const graphQLComment = "authorAssociation body bodyHTML bodyText createdAt databaseId fullDatabaseId id includesCreatedEdit isMinimized lastEditedAt minimizedReason publishedAt resourcePath updatedAt url viewerCanDelete viewerCanMinimize viewerCanReact viewerCanUpdate viewerDidAuthor author:Actor editor:Actor reactionGroups:ReactionGroup repository:linkedRepository"

// graphQLConversation are the fields that issues and pull requests share.
const graphQLConversation = "activeLockReason authorAssociation body bodyHTML bodyText closed closedAt createdAt databaseId fullDatabaseId id includesCreatedEdit isReadByViewer lastEditedAt locked number publishedAt resourcePath state title titleHTML updatedAt url viewerCanClose viewerCanReopen viewerCanUpdate viewerDidAuthor viewerSubscription author:Actor editor:Actor assignees:[User] assignedActors:[Actor] participants:[User] comments:[IssueComment] labels:[Label]@ milestone:Milestone@ projectCards:[ProjectCard]@ projectItems:[ProjectV2Item]@ reactionGroups:ReactionGroup repository:linkedRepository"

// graphQLPayload are the results of mutations, and parts of them.
const graphQLPayload = "clientMutationId actor:Actor assignable:Assignable comment:PullRequestReviewComment commentEdge:[IssueComment] commit:Commit issue:Issue issueComment:IssueComment labelable:Labelable linkedBranch:LinkedBranch lockedRecord:Lockable unlockedRecord:Lockable mergeCommit:Commit pullRequest:PullRequest pullRequestReview:PullRequestReview pullRequestReviewComment:PullRequestReviewComment ref:Ref revertPullRequest:PullRequest reviewEdge:[PullRequestReview] thread:PullRequestReviewThread"

// graphQLConnection are the fields of every connection and edge beside nodes, edges and node.
const graphQLConnection = "checkRunCount cursor issueCount size statusContextCount totalCount totalSize pageInfo:PageInfo checkRunCountsByState:StateCount statusContextCountsByState:StateCount"

// graphQLMutations are the mutations, and the permissions that each needs at the level write: those
// of its REST twin. Between | any one suffices. An issue's comments, labels and assignees are those
// of a pull request too, and a node id does not tell which it is.
//
// A mutation that writes commits or refs needs contents, even if its REST twin does not: merging,
// updating a pull request's branch, reverting, creating an issue's branch. Enabling auto-merge is
// merging, at a later time. Deleting and transferring an issue have no REST twin and are denied.
const graphQLMutations = `
addAssigneesToAssignable issues|pull_requests
addComment issues|pull_requests
addLabelsToLabelable issues|pull_requests
addPullRequestReview pull_requests
addPullRequestReviewComment pull_requests
addPullRequestReviewThread pull_requests
addPullRequestReviewThreadReply pull_requests
addSubIssue issues
clearLabelsFromLabelable issues|pull_requests
closeIssue issues
closePullRequest pull_requests
convertPullRequestToDraft pull_requests
createCommitOnBranch contents
createIssue issues
createLinkedBranch contents issues
createPullRequest pull_requests
createRef contents
deleteIssueComment issues|pull_requests
deletePullRequestReview pull_requests
deletePullRequestReviewComment pull_requests
deleteRef contents
disablePullRequestAutoMerge pull_requests
dismissPullRequestReview pull_requests
enablePullRequestAutoMerge contents pull_requests
lockLockable issues|pull_requests
markPullRequestReadyForReview pull_requests
mergeBranch contents
mergePullRequest contents pull_requests
pinIssue issues
removeAssigneesFromAssignable issues|pull_requests
removeLabelsFromLabelable issues|pull_requests
removeSubIssue issues
reopenIssue issues
reopenPullRequest pull_requests
replaceActorsForAssignable issues|pull_requests
requestReviews pull_requests
requestReviewsByLogin pull_requests
resolveReviewThread pull_requests
revertPullRequest contents pull_requests
submitPullRequestReview pull_requests
unlockLockable issues|pull_requests
unpinIssue issues
unresolveReviewThread pull_requests
updateIssue issues
updateIssueComment issues|pull_requests
updatePullRequest pull_requests
updatePullRequestBranch contents pull_requests
updatePullRequestReview pull_requests
updatePullRequestReviewComment pull_requests
updateRef contents`

// graphQLType is a line of graphQLTypes.
type graphQLType struct {
	need   []string // any one of them; nil = none
	fields map[string]graphQLField
}

// graphQLField is a field of a graphQLType.
type graphQLField struct {
	of         string // name of its type; "" = a scalar
	connection bool
	need       []string // any one of them; nil = none
}

// graphQLSchema is graphQLTypes, parsed once. Of a field without a need of its own, the need is that
// of its type.
var graphQLSchema = func() map[string]graphQLType {
	out := map[string]graphQLType{}
	for line := range strings.Lines(graphQLTypes) {
		head, fields, is := strings.Cut(line, ":")
		if !is {
			continue
		}
		name, need, _ := strings.Cut(head, "@")
		out[name] = graphQLType{anyOf(need), parseGraphQLFields(fields)}
	}
	for _, t := range out {
		for name, f := range t.fields {
			if f.need == nil {
				f.need = out[f.of].need
				t.fields[name] = f
			}
		}
	}
	return out
}()

// graphQLEdges are the fields of graphQLConnection.
var graphQLEdges = parseGraphQLFields(graphQLConnection)

func parseGraphQLFields(text string) map[string]graphQLField {
	out := map[string]graphQLField{}
	for word := range strings.FieldsSeq(text) {
		name, of, _ := strings.Cut(word, ":")
		of, need, own := strings.Cut(of, "@")
		f := graphQLField{of: strings.Trim(of, "[]"), connection: strings.HasPrefix(of, "["), need: anyOf(need)}
		if own && need == "" {
			f.need = []string{}
		}
		out[name] = f
	}
	return out
}

func anyOf(need string) []string {
	if need == "" {
		return nil
	}
	return strings.Split(need, "|")
}

// graphQLWrites is graphQLMutations, parsed once: all of the outer list, and of each inner one any.
var graphQLWrites = func() map[string][][]string {
	out := map[string][][]string{}
	for line := range strings.Lines(strings.TrimSpace(graphQLMutations)) {
		words := strings.Fields(line)
		for _, need := range words[1:] {
			out[words[0]] = append(out[words[0]], anyOf(need))
		}
	}
	return out
}()
