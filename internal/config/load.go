package config

import (
	"fmt"
	"io"
	"os"
	"reflect"
	"syscall"
)

// maxFileBytes bounds what is read as a configuration: more than maxNodes can be,
// and a mistaken path to a log or a device does no harm.
const maxFileBytes = 4 << 20

// Load reads and checks the file. The error is a Faults with every fault of it.
func Load(path string) (*Config, error) {
	data, err := Read(path)
	if err != nil {
		return nil, Faults{{File: path, Msg: err.Error()}}
	}
	return Parse(path, data)
}

// Read gives the content of a configuration file, for Parse. Who wants to know
// whether a file has changed compares contents.
func Read(path string) ([]byte, error) {
	// A pipe would be waited for, for ever: nothing else could be reloaded or ended then.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("cannot be read: %w", err)
	}
	defer f.Close()
	if st, err := f.Stat(); err != nil {
		return nil, fmt.Errorf("cannot be read: %w", err)
	} else if !st.Mode().IsRegular() {
		return nil, fmt.Errorf("cannot be read: %s is not a regular file", path)
	}
	data, err := io.ReadAll(io.LimitReader(f, maxFileBytes+1))
	if err != nil {
		return nil, fmt.Errorf("cannot be read: %w", err)
	}
	return data, nil
}

// Parse checks data, the content of the file at path, which serves as its name
// only. The error is a Faults with every fault of it, and there is no
// configuration then.
func Parse(path string, data []byte) (*Config, error) {
	d := &decoder{faults: collector{file: path}, warnings: collector{file: path}, places: map[string]place{}}
	cfg := &Config{Path: path}
	if root := parseTree(data, &d.faults); root != nil {
		v := reflect.ValueOf(cfg).Elem()
		d.root = v
		d.setDefaults(v)
		d.decode(v, root, field{})
		check(d, cfg)
	}
	if d.faults.total > 0 {
		return nil, d.faults.all()
	}
	for _, w := range d.warnings.all() {
		cfg.Warnings = append(cfg.Warnings, w.String())
	}
	return cfg, nil
}
