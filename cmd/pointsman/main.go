// Command pointsman routes LLM inference traffic through Envoy: an ext_proc
// service that chooses the upstream of every request, and the xDS control plane
// that gives Envoy the clusters to reach them.
//
// This file holds flags and exit codes only; internal/app does the work.
package main

import (
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
var version = "dev"

func main() {
	if err := command(os.Stdout, os.Stderr).Execute(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func command(stdout, stderr io.Writer) *cobra.Command {
	root := &cobra.Command{
		Use:           "pointsman",
		Short:         "Routes LLM inference traffic through Envoy",
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          cobra.NoArgs,
	}
	root.SetOut(stdout)
	root.SetErr(stderr)
	root.AddCommand(runCommand(stderr), serveCommand(stderr), checkCommand(stdout), explainCommand(stdout), envoyCommand(stdout), versionCommand(stdout))
	return root
}

func configFlag(c *cobra.Command) *string {
	path := c.Flags().StringP("config", "c", "", "configuration file (required)")
	if err := c.MarkFlagRequired("config"); err != nil { // the flag exists: cannot happen
		panic(err)
	}
	return path
}

func runCommand(stderr io.Writer) *cobra.Command {
	c := &cobra.Command{
		Use:   "run",
		Short: "Serve, and run Envoy as a child",
		Long:  "Serve, and run Envoy as a child. Envoy is found by --envoy, $ENVOY_BIN or PATH.",
		Args:  cobra.NoArgs,
	}
	path := configFlag(c)
	bin := c.Flags().String("envoy", "", "the Envoy program (default: $ENVOY_BIN, else envoy in PATH)")
	c.RunE = func(*cobra.Command, []string) error {
		// Envoy dies with the thread that started it, so this one must stay.
		runtime.LockOSThread()
		found, err := findEnvoy(*bin)
		if err != nil {
			return err
		}
		return serve(*path, found, stderr)
	}
	return c
}

func serveCommand(stderr io.Writer) *cobra.Command {
	c := &cobra.Command{Use: "serve", Short: "Serve only; Envoy is started by somebody else", Args: cobra.NoArgs}
	path := configFlag(c)
	c.RunE = func(*cobra.Command, []string) error { return serve(*path, "", stderr) }
	return c
}

func checkCommand(stdout io.Writer) *cobra.Command {
	c := &cobra.Command{
		Use:   "check",
		Short: "Check a configuration file: exit 0, or 1 with one line per fault",
		Args:  cobra.NoArgs,
	}
	path := configFlag(c)
	noSecrets := c.Flags().Bool("no-secrets", false, "missing environment variables and files of keys and TLS are warnings")
	c.RunE = func(*cobra.Command, []string) error {
		cfg, err := config.Load(*path)
		if err != nil {
			return err
		}
		missing := upstream.Check(cfg)
		if len(missing) > 0 && !*noSecrets {
			return missing
		}
		if _, err := envoy.Build(cfg, nil); err != nil {
			return err
		}
		for _, f := range missing {
			fmt.Fprintln(stdout, "warning:", f)
		}
		for _, w := range cfg.Warnings {
			fmt.Fprintln(stdout, "warning:", w)
		}
		return nil
	}
	return c
}

func envoyCommand(stdout io.Writer) *cobra.Command {
	parent := &cobra.Command{Use: "envoy", Short: "Print configuration for Envoy", Args: cobra.NoArgs}
	c := &cobra.Command{Use: "bootstrap", Short: "Print Envoy's bootstrap, YAML", Args: cobra.NoArgs}
	path := configFlag(c)
	c.RunE = func(*cobra.Command, []string) error {
		cfg, err := config.Load(*path)
		if err != nil {
			return err
		}
		out, err := envoy.Bootstrap(cfg)
		if err != nil {
			return err
		}
		_, err = stdout.Write(out)
		return err
	}
	parent.AddCommand(c)
	return parent
}

func versionCommand(stdout io.Writer) *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			b := build()
			_, err := fmt.Fprintf(stdout, "pointsman %s (%s, %s)\n", b.Version, b.Revision, b.Go)
			return err
		},
	}
}

func serve(path, envoyPath string, stderr io.Writer) error {
	// Two signals may come in a row, and neither may be lost.
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	node := os.Getenv("POINTSMAN_NODE_ID")
	if node == "" {
		node, _ = os.Hostname() // without one the start time alone tells replicas apart
	}
	a, err := app.New(app.Options{
		ConfigPath: path, EnvoyPath: envoyPath, NodeID: node, Build: build(), Stderr: stderr, Signals: signals,
	})
	if err != nil {
		return err
	}
	return a.Run()
}

func findEnvoy(flag string) (string, error) {
	name := flag
	if name == "" {
		name = os.Getenv("ENVOY_BIN")
	}
	if name == "" {
		name = "envoy"
	}
	found, err := exec.LookPath(name)
	if err != nil {
		return "", errors.New("no Envoy found: name it by --envoy or $ENVOY_BIN, or put envoy into PATH")
	}
	return found, nil
}

func build() app.Build {
	b := app.Build{Version: version, Revision: "unknown", Go: runtime.Version()}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				b.Revision = s.Value
			}
		}
	}
	return b
}
