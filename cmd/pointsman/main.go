// Command pointsman routes LLM inference traffic through Envoy: an ext_proc
// service that chooses the upstream of every request, and the xDS control plane
// that gives Envoy the clusters to reach them.
//
// It holds flags and exit codes only; internal/app does the work.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"runtime/debug"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/pointsman/pointsman/envoy"
	"github.com/pointsman/pointsman/internal/app"
	"github.com/pointsman/pointsman/internal/config"
	"github.com/pointsman/pointsman/internal/upstream"
)

// version is set at build time: -ldflags "-X main.version=v1.2.3".
var version string

func main() {
	err := command(os.Stdout, os.Stderr).Execute()
	switch {
	case err == nil:
		return
	case !errors.Is(err, errLogged):
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(1)
}

// errLogged ends the process with an error that its log has told.
var errLogged = errors.New("ended by an error")

func command(stdout, stderr io.Writer) *cobra.Command {
	root := group(&cobra.Command{
		Use:           "pointsman",
		Short:         "Routes LLM inference traffic through Envoy",
		SilenceUsage:  true,
		SilenceErrors: true,
	},
		runCommand(stderr), serveCommand(stderr), checkCommand(stderr), explainCommand(stdout),
		group(&cobra.Command{Use: "envoy", Short: "Print configuration for Envoy"}, bootstrapCommand(stdout)),
		versionCommand(stdout))
	root.SetOut(stdout)
	root.SetErr(stderr)
	root.SetFlagErrorFunc(usage)
	return root
}

// usage adds to what is wrong with the command line where help is.
func usage(c *cobra.Command, err error) error {
	return fmt.Errorf("%w; see %s --help", err, c.CommandPath())
}

// group gives a command that only holds others; alone it prints its help.
func group(c *cobra.Command, members ...*cobra.Command) *cobra.Command {
	c.AddCommand(members...)
	c.Args = func(c *cobra.Command, args []string) error {
		if len(args) > 0 {
			return usage(c, fmt.Errorf("unknown command %q", args[0]))
		}
		return nil
	}
	c.RunE = func(c *cobra.Command, _ []string) error { return c.Help() }
	return c
}

func noArgs(c *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usage(c, fmt.Errorf("unexpected argument %q", args[0]))
	}
	return nil
}

// withConfig gives a command that works on a configuration file.
func withConfig(c *cobra.Command, work func(path string) error) *cobra.Command {
	path := c.Flags().StringP("config", "c", "", "configuration `file` (required)")
	c.Args = noArgs
	c.RunE = func(c *cobra.Command, _ []string) error {
		if *path == "" {
			return usage(c, errors.New("--config is missing"))
		}
		return work(*path)
	}
	return c
}

func runCommand(stderr io.Writer) *cobra.Command {
	c := &cobra.Command{
		Use:   "run",
		Short: "Serve, and run Envoy as a child",
		Long:  "Serve, and run Envoy as a child. Envoy is found by --envoy, $ENVOY_BIN or PATH.",
	}
	bin := c.Flags().String("envoy", "", "the Envoy `program` (default: $ENVOY_BIN, else envoy in PATH)")
	return withConfig(c, func(path string) error {
		found, err := findEnvoy(*bin, os.Getenv("ENVOY_BIN"))
		if err != nil {
			return err
		}
		return serve(path, found, stderr)
	})
}

func serveCommand(stderr io.Writer) *cobra.Command {
	c := &cobra.Command{Use: "serve", Short: "Serve only; Envoy is started by somebody else"}
	return withConfig(c, func(path string) error { return serve(path, "", stderr) })
}

func checkCommand(stderr io.Writer) *cobra.Command {
	c := &cobra.Command{Use: "check", Short: "Check a configuration file: exit 0, or 1 with one line per fault"}
	noSecrets := c.Flags().Bool("no-secrets", false, "missing environment variables and files of keys and TLS are warnings")
	return withConfig(c, func(path string) error {
		cfg, err := config.Load(path)
		if err != nil {
			return err
		}
		missing := upstream.Check(cfg)
		if len(missing) > 0 && !*noSecrets {
			return missing
		}
		for _, f := range missing {
			fmt.Fprintln(stderr, "warning:", f)
		}
		for _, w := range cfg.Warnings {
			fmt.Fprintln(stderr, "warning:", w)
		}
		_, err = envoy.Build(cfg, nil)
		return err
	})
}

func bootstrapCommand(stdout io.Writer) *cobra.Command {
	c := &cobra.Command{Use: "bootstrap", Short: "Print Envoy's bootstrap, YAML"}
	return withConfig(c, func(path string) error {
		cfg, err := config.Load(path)
		if err != nil {
			return err
		}
		out, err := envoy.Bootstrap(cfg)
		if err != nil {
			return err
		}
		_, err = stdout.Write(out)
		return err
	})
}

func versionCommand(stdout io.Writer) *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			b := build()
			_, err := fmt.Fprintf(stdout, "pointsman %s (%s, %s)\n", b.Version, b.Revision, b.Go)
			return err
		},
	}
}

func serve(path, envoyPath string, stderr io.Writer) error {
	// Whoever reads the log may die; a line that cannot be written is dropped then.
	signal.Ignore(syscall.SIGPIPE)
	// Two signals may come in a row, and neither may be lost.
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	host, _ := os.Hostname() // without one the start time alone tells replicas apart
	a, err := app.New(app.Options{
		ConfigPath: path, EnvoyPath: envoyPath, NodeID: app.NodeID(os.Getenv("POINTSMAN_NODE_ID"), host),
		Build: build(), Stderr: stderr, Signals: signals,
	})
	if err != nil {
		return err
	}
	if a.Run(context.Background()) != nil {
		return errLogged
	}
	return nil
}

// findEnvoy gives the program named by the flag, else by the environment, else the envoy in
// PATH.
func findEnvoy(flag, env string) (string, error) {
	for _, by := range []struct{ what, name string }{{"--envoy", flag}, {"$ENVOY_BIN", env}} {
		if by.name == "" {
			continue
		}
		found, err := exec.LookPath(by.name)
		if err != nil {
			return "", fmt.Errorf("%s: %w", by.what, err)
		}
		return found, nil
	}
	found, err := exec.LookPath("envoy")
	if err != nil {
		return "", errors.New("no Envoy found: name it by --envoy or $ENVOY_BIN, or put envoy into PATH")
	}
	return found, nil
}

func build() app.Build {
	b := app.Build{Version: version, Revision: "unknown", Go: runtime.Version()}
	if info, ok := debug.ReadBuildInfo(); ok {
		b.Version = cmp.Or(b.Version, info.Main.Version)
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				b.Revision = s.Value
			}
		}
	}
	b.Version = cmp.Or(b.Version, "unknown")
	return b
}
