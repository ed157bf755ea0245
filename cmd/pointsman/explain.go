package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/pointsman/pointsman/internal/config"
	"github.com/pointsman/pointsman/internal/request"
	"github.com/pointsman/pointsman/internal/routing"
	"github.com/pointsman/pointsman/internal/wire"
)

// maxSpans is how many places of the model are shown.
const maxSpans = 8

func explainCommand(stdout io.Writer) *cobra.Command {
	c := &cobra.Command{
		Use:   "explain",
		Short: "Show what is read from a request",
		Long: "Show what is read from a request, as a server with this configuration reads it (without one: with the defaults).\n" +
			"A request that would be refused ends with exit code 1 and the answer that the client would get.",
		Args: noArgs,
	}
	file := c.Flags().StringP("request", "r", "", "`file` with the body of the request, as it is sent; - is the standard input (required)")
	path := c.Flags().String("path", "/v1/chat/completions", "`path` of the request, also with a query")
	headers := c.Flags().StringArray("header", nil, "a header of the request, `name=value`; repeat for more")
	configFile := c.Flags().StringP("config", "c", "", "configuration `file`")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if *file == "" {
			return usage(c, errors.New("--request is missing"))
		}
		h, err := parseHeaders(*headers)
		if err != nil {
			return err
		}
		opts := request.DefaultOptions()
		if *configFile != "" {
			cfg, err := config.Load(*configFile)
			if err != nil {
				return err
			}
			opts = routing.ReadOptions(cfg)
		}
		body, err := readRequest(*file, c.InOrStdin(), opts.BodyLimit)
		if err != nil {
			return err
		}
		return explain(stdout, opts, *path, h, body)
	}
	return c
}

// requestHeader is request.Header of a command line.
type requestHeader map[string][]string

// Get implements request.Header.
func (h requestHeader) Get(name string) string {
	if v := h[name]; len(v) > 0 {
		return v[0]
	}
	return ""
}

// Values implements request.Header.
func (h requestHeader) Values(name string) []string { return h[name] }

func parseHeaders(flags []string) (requestHeader, error) {
	h := requestHeader{}
	for _, flag := range flags {
		name, value, ok := strings.Cut(flag, "=")
		if !ok || name == "" {
			return nil, fmt.Errorf("--header %q is not name=value", flag)
		}
		name = strings.ToLower(name)
		h[name] = append(h[name], strings.Trim(value, " \t"))
	}
	return h, nil
}

// readRequest reads a body, no further than to see that it is too large.
func readRequest(file string, stdin io.Reader, limit int64) ([]byte, error) {
	in := stdin
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return nil, fmt.Errorf("request: %w", err)
		}
		defer func() { _ = f.Close() }()
		in = f
	}
	body, err := io.ReadAll(io.LimitReader(in, limit+1))
	if err != nil {
		return nil, fmt.Errorf("request: %w", err)
	}
	return body, nil
}

// explain writes what is read from a request, and what a client is answered that is not
// understood.
func explain(w io.Writer, opts request.Options, path string, h requestHeader, body []byte) error {
	var q request.Request
	err := request.NewReader(opts).Read(path, h, body, &q)
	var fault request.Fault
	if errors.As(err, &fault) {
		e, message := routing.FaultAnswer(fault, opts.BodyLimit)
		fmt.Fprintf(w, "%s\n", e.Body(wire.DialectOf(path), message))
		return fmt.Errorf("refused: %d %s", e.Status, e.Code)
	}
	if err != nil {
		return err
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(name, format string, args ...any) {
		fmt.Fprintf(t, "%s\t%s\n", name, fmt.Sprintf(format, args...))
	}
	row("path", "%s (%s)", q.Path, promptWords(path, body, &q))
	row("model", "%q", q.Model)
	row("kind", "%s", pick(q.Stream, "stream", "unary"))
	if q.HasPrompt {
		row("text", "%d bytes", len(q.Text))
		row("length", "%d bytes", q.Length)
		row("digest", "%016x", q.Digest)
	}
	row("tokens", "%d (%s)", q.PromptTokens(), pick(q.TokenIDs != nil, "the ids are known", "length / 4"))
	row("session", "%s", pick(q.Session != "", "yes", "no"))
	row("salt", "%s", pick(q.CacheSalt != "", "yes", "no"))
	row("kv score", "%s", pick(q.KVOff, "no", "yes"))
	if q.Decoded != nil {
		row("decoded", "%d bytes of %d", len(q.Decoded), len(body))
	}
	row("model at", "%s", spanWords(&q))
	return t.Flush()
}

// promptWords says what the prompt is.
func promptWords(path string, body []byte, q *request.Request) string {
	if q.Decoded != nil {
		body = q.Decoded
	}
	text := q.Text
	if q.CacheSalt != "" {
		text = text[bytes.IndexByte(text, '\n')+1:]
	}
	switch {
	case q.Form:
		return "a form: no prompt"
	case !q.HasPrompt:
		return "no prompt"
	case request.KnownPath(path):
		if q.Length == int64(len(body)) && bytes.HasPrefix(body, text) {
			return "no prompt in the body, which stands for it"
		}
		return "the prompt was read"
	}
	return "not a listed path: the body stands for the prompt"
}

func spanWords(q *request.Request) string {
	var places []string
	for _, s := range q.ModelSpans[:min(len(q.ModelSpans), maxSpans)] {
		places = append(places, fmt.Sprintf("%d-%d", s.Offset, s.Offset+s.Length))
	}
	if more := len(q.ModelSpans) - len(places); more > 0 {
		places = append(places, fmt.Sprintf("and %d more", more))
	}
	return cmp.Or(strings.Join(places, ", "), "nowhere")
}

func pick(is bool, yes, no string) string {
	if is {
		return yes
	}
	return no
}
