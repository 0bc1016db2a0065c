package main

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ebb-broker/ebb/attest/lazyregexp"
	"github.com/ebb-broker/ebb/cmd/ebb/internal/contexts"
	"github.com/ebb-broker/ebb/cmd/internal/out"
	"github.com/ebb-broker/ebb/web/client"
	"github.com/ebb-broker/ebb/web/wire"
)

// completionTime limits the calls of one completion: the shell waits for it.
const completionTime = 2 * time.Second

// completer returns the possible values of an argument or flag, each with a
// description after a tab. An error offers nothing.
type completer func(context.Context, *cli) ([]string, error)

// argumentValues are the values of the words in capitals in the Use of commands.
// A word that neither argumentValues nor argumentFiles has is not completed.
var argumentValues = map[string]completer{
	"TASK": completeTasks, "REQUEST": completeRequests, "LEASE": completeLeases, "PROVIDER": completeProviders, "ATTESTOR": completeAttestors,
	"SECRET": completeSecrets, "TRANSCRIPT": completeTranscripts, "KID": completeKeys, "CHANNEL": completeChannels, "CONTEXT": completeContexts,
}

// argumentFiles are the words for files and directories.
var argumentFiles = map[string]cobra.ShellCompDirective{
	"FILE": cobra.ShellCompDirectiveDefault, "EXPORT": cobra.ShellCompDirectiveDefault, "CMD": cobra.ShellCompDirectiveDefault, "ARG": cobra.ShellCompDirectiveDefault, "DIR": cobra.ShellCompDirectiveFilterDirs,
}

// flagValues are the values of flags without a closed list, by name.
var flagValues = map[string]completer{
	"task": completeTasks, "join": completeTasks, "request": completeRequests, "lease": completeLeases, "parent": completeLeases, "provider": completeProviders,
	"attestor": completeAttestors, "delegate-attestor": completeAttestors, "context": completeContexts,
	"owner": completeOwners,
}

// complete adds the completion of a command's arguments and flags.
func (c *cli) complete(cmd *cobra.Command) {
	if cmd.ValidArgsFunction == nil && !cmd.HasSubCommands() {
		cmd.ValidArgsFunction = c.completeArguments
	}
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		var complete cobra.CompletionFunc
		list, isClosed := f.Value.(closed)
		name, _ := pflag.UnquoteUsage(f)
		switch {
		case isClosed:
			complete = cobra.FixedCompletions(list.Values(), cobra.ShellCompDirectiveNoFileComp)
		case flagValues[f.Name] != nil:
			complete = func(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
				return c.offer(cmd, flagValues[f.Name]), cobra.ShellCompDirectiveNoFileComp
			}
		case name == "directory":
			complete = func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
				return nil, cobra.ShellCompDirectiveFilterDirs
			}
		case name == "file" || name == "path":
			return // the default: names of files
		default:
			complete = cobra.NoFileCompletions
		}
		_ = cmd.RegisterFlagCompletionFunc(f.Name, complete) // fails only for a flag that is registered already
	})
}

// completeArguments completes the argument after args by its word in Use.
func (c *cli) completeArguments(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	words := slices.DeleteFunc(strings.Fields(cmd.Use)[1:], func(word string) bool { return word == "[flags]" || word == "--" })
	at := len(args)
	if n := len(words); n > 0 && at >= n && strings.Contains(words[n-1], "...") {
		at = n - 1
	}
	if at >= len(words) {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	word := strings.Trim(words[at], "[].")
	if d, file := argumentFiles[word]; file {
		return nil, d
	}
	if values := argumentValues[word]; values != nil {
		return c.offer(cmd, values), cobra.ShellCompDirectiveNoFileComp
	}
	if word == strings.ToLower(word) { // get|store|erase
		return strings.Split(word, "|"), cobra.ShellCompDirectiveNoFileComp
	}
	return nil, cobra.ShellCompDirectiveNoFileComp
}

// plainWord matches a value that no shell interprets and no command takes for a flag.
var plainWord = lazyregexp.New(`^[A-Za-z0-9_][A-Za-z0-9._:@/-]*$`)

// offer returns the values of f. It drops values that a shell could interpret, because a server may choose them. After
// an error it returns none, because completion cannot show an error.
func (c *cli) offer(cmd *cobra.Command, f completer) []cobra.Completion {
	if err := c.settle(cmd, nil); err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), completionTime)
	defer cancel()
	values, err := f(ctx, c)
	if err != nil {
		return nil
	}
	var offered []cobra.Completion
	for _, v := range values {
		word, about, _ := strings.Cut(v, "\t")
		if plainWord.MatchString(word) {
			offered = append(offered, cobra.CompletionWithDesc(word, out.Line(about)))
		}
	}
	return offered
}

// Completions from lists of the server: the newest 50 rows at most, newest first.
var (
	newest      = client.Page{Limit: 50, Desc: true}
	newestTasks = func(ctx context.Context, o *client.Operator) (wire.List[wire.Task], error) {
		return o.Tasks.List(ctx, client.TaskFilter{Page: newest})
	}
	completeTasks    = listed(operatorKey, newestTasks, func(t wire.Task) string { return t.ID + "\t" + string(t.State) + " " + t.Name })
	completeOwners   = listed(operatorKey, newestTasks, func(t wire.Task) string { return t.Owner })
	completeRequests = listed(approverKey, func(ctx context.Context, o *client.Operator) (wire.List[wire.Request], error) {
		return o.Requests.List(ctx, client.RequestFilter{Page: newest})
	}, func(r wire.Request) string { return r.ID + "\t" + string(r.State) + " " + r.Scopes })
	completeLeases = listed(operatorKey, func(ctx context.Context, o *client.Operator) (wire.List[wire.Lease], error) {
		return o.Credentials.List(ctx, client.CredentialFilter{Page: newest})
	}, func(l wire.Lease) string { return l.ID + "\t" + string(l.State) + " " + l.Scopes })
	completeTranscripts = listed(operatorKey, func(ctx context.Context, o *client.Operator) (wire.List[wire.TranscriptHead], error) {
		return o.Transcripts.List(ctx, client.TranscriptFilter{Limit: newest.Limit})
	}, func(h wire.TranscriptHead) string { return h.ID + "\t" + h.Method + " " + h.Host })
	completeSecrets = listed(operatorKey, func(ctx context.Context, o *client.Operator) (wire.List[wire.StoredSecret], error) {
		return o.Secrets.List(ctx)
	}, func(s wire.StoredSecret) string { return s.Name })
	completeProviders = listed(operatorKey, func(ctx context.Context, o *client.Operator) (l wire.List[wire.Provider], err error) {
		l.Items, err = o.Providers.List(ctx)
		return l, err
	}, func(p wire.Provider) string { return p.Name + "\t" + p.Kind })
	completeAttestors = listed(operatorKey, func(ctx context.Context, o *client.Operator) (l wire.List[wire.Attestor], err error) {
		l.Items, err = o.Attestors.List(ctx)
		return l, err
	}, func(a wire.Attestor) string { return a.Name })
)

// listed returns a completer of the words in a list of the server. It reads the list as the principal
// whose local key is named local, and offers each word once.
func listed[T any](local string, list func(context.Context, *client.Operator) (wire.List[T], error), word func(T) string) completer {
	return func(ctx context.Context, c *cli) (words []string, err error) {
		o, err := c.operator(local)
		if err != nil {
			return nil, err
		}
		page, err := list(ctx, o)
		for _, item := range page.Items {
			if w := word(item); !slices.Contains(words, w) {
				words = append(words, w)
			}
		}
		return words, err
	}
}

func completeKeys(_ context.Context, c *cli) ([]string, error) {
	dir, err := keyCommands{c}.openKeys()
	if err != nil {
		return nil, err
	}
	var words []string
	for _, k := range keyLines(dir.Ring(), time.Now()) {
		words = append(words, k.KID+"\t"+k.State)
	}
	return words, nil
}

func completeChannels(_ context.Context, c *cli) ([]string, error) {
	cfg, err := c.loadConfig()
	var words []string
	for _, ch := range cfg.Notify.Channels {
		words = append(words, ch.Name+"\t"+ch.Kind)
	}
	return words, err
}

func completeContexts(_ context.Context, c *cli) ([]string, error) {
	f, err := c.contexts()
	return append(slices.Sorted(maps.Keys(f.Contexts)), contexts.Local), err
}
