// Command tracecut cuts an excerpt out of a trace in Mooncake's form: whole
// conversations, in the order of the trace, none of their rows changed.
//
// It made the excerpt in internal/trace/testdata; the README there has the command line.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/pointsman/pointsman/internal/trace"
)

func main() {
	switch err := run(os.Args[1:], os.Stderr); {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintln(os.Stderr, "tracecut:", err)
		os.Exit(1)
	}
}

// run cuts as the flags say and reports on stderr.
func run(args []string, stderr io.Writer) error {
	var o trace.CutOptions
	var from trace.Attribution
	flags := flag.NewFlagSet("tracecut", flag.ContinueOnError)
	flags.SetOutput(stderr)
	in := flags.String("in", "", "trace to cut, plain or gzip-compressed `file`")
	out := flags.String("out", "", "excerpt to write, gzip-compressed `file`")
	flags.DurationVar(&o.From, "from", 0, "begin of the window")
	flags.DurationVar(&o.To, "to", 0, "end of the window, 0 = the end of the trace")
	flags.IntVar(&o.MinTurns, "min-turns", 1, "leave out conversations of fewer requests")
	flags.IntVar(&o.MaxBlocks, "max-blocks", 0, "leave out conversations with a longer prompt, in `blocks` of 512 tokens; 0 = none")
	flags.IntVar(&o.Every, "every", 1, "take one of `n` of the remaining conversations")
	flags.StringVar(&from.Source, "source", "github.com/kvcache-ai/Mooncake, FAST25-release/traces/conversation_trace.jsonl", "where the trace comes from")
	flags.StringVar(&from.Commit, "commit", "3b5a594", "commit of the source")
	flags.StringVar(&from.License, "license", "Apache-2.0", "license of the source")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *in == "" || *out == "" || flags.NArg() > 0 {
		return errors.New("needs --in and --out and no other arguments")
	}
	rows, err := read(*in)
	if err != nil {
		return err
	}
	cut := trace.Cut(rows, o)
	if len(cut) == 0 {
		return errors.New("no conversation is left")
	}
	from.Changes = fmt.Sprintf("Excerpt: of the conversations (rows with the same second hash id) that lie wholly in the window from %v to %v "+
		"(0s = end), have at least %d rows and no prompt of more than %d blocks (0 = no limit), one of %d in order of their beginning. "+
		"Rows are unchanged and in their order.", o.From, o.To, o.MinTurns, o.MaxBlocks, max(1, o.Every))
	var file bytes.Buffer
	if err := trace.Write(&file, from, cut); err != nil {
		return err
	}
	if err := os.WriteFile(*out, file.Bytes(), 0o644); err != nil {
		return err
	}
	report(stderr, "trace", trace.Summarize(rows))
	report(stderr, "excerpt", trace.Summarize(cut))
	fmt.Fprintf(stderr, "%s: %d bytes\n", *out, file.Len())
	return nil
}

// read reads a whole trace.
func read(path string) ([]trace.Row, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var rows []trace.Row
	for row, err := range trace.Rows(f) {
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		rows = append(rows, row)
	}
	return rows, nil
}

func report(w io.Writer, name string, s trace.Summary) {
	n := max(1, int64(s.Rows))
	fmt.Fprintf(w, "%s: %d requests in %d conversations over %v, mean %d tokens in and %d out, ideal hit %.1f %%\n",
		name, s.Rows, s.Conversations, s.Length, s.InputTokens/n, s.OutputTokens/n, 100*s.IdealHit)
}
