package meshes

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/kube/internal/cluster"
)

// installByProgram applies the manifests that the mesh's own program prints, and returns its version and name.
func (n *installer) installByProgram(ctx context.Context, in mesh.InstallContext) (version, program string, err error) {
	cli := n.k.CLI
	path, err := findProgram(cli.Program)
	if err != nil {
		return "", "", err
	}
	out, err := output(ctx, path, cli.Version)
	if err != nil {
		return "", "", err
	}
	version = lastWord(out)
	in.Version = version
	dir, err := os.MkdirTemp("", "tare-mesh-")
	if err != nil {
		return "", "", fmt.Errorf("create a directory for values: %w", err)
	}
	defer os.RemoveAll(dir)
	in.ValuesFile = filepath.Join(dir, "values.yaml")
	commands, values, err := cli.Commands(in)
	if err != nil {
		return "", "", err
	}
	if err := os.WriteFile(in.ValuesFile, []byte(values), 0o600); err != nil {
		return "", "", fmt.Errorf("write the values for %s: %w", cli.Program, err)
	}
	for i, args := range commands {
		args = slices.DeleteFunc(args, func(a string) bool { return a == "" }) // a template may render to nothing
		if i == len(commands)-1 {
			args = append(args, n.options.Arguments...)
		}
		n.report("applying the output of %s %s", cli.Program, strings.Join(args, " "))
		if err := n.applyOutput(ctx, path, args, fmt.Sprintf("%s-%d.yaml", cli.Program, i+1)); err != nil {
			return "", "", err
		}
	}
	return version, cli.Program + " " + version, nil
}

// findProgram finds a mesh's own program in PATH.
func findProgram(name string) (path string, err error) {
	path, err = exec.LookPath(name)
	if err != nil {
		return "", hint.New("install it, or omit --with-cli: the charts need no program", "find %s: %w", name, err)
	}
	return path, nil
}

func (n *installer) applyOutput(ctx context.Context, path string, args []string, name string) error {
	out, err := output(ctx, path, args)
	if err != nil {
		return err
	}
	text, err := redacted(out)
	if err == nil {
		err = n.keep(name, text)
	}
	if err != nil {
		return fmt.Errorf("archive the output of %s: %w", filepath.Base(path), err)
	}
	all, err := cluster.Parse(out)
	if err != nil {
		return fmt.Errorf("read the output of %s: %w", filepath.Base(path), err)
	}
	// The namespace exists already, and keeps tare's marks.
	all = slices.DeleteFunc(all, func(o *unstructured.Unstructured) bool {
		return o.GetKind() == "Namespace" && o.GetName() == n.k.Namespace
	})
	return n.apply(ctx, n.stamp(), all)
}

// output runs a program and returns its standard output. The error contains the last lines of its standard error.
func output(ctx context.Context, path string, args []string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, path, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		text := strings.TrimSpace(stderr.String())
		if lines := strings.Split(text, "\n"); len(lines) > 5 {
			text = strings.Join(lines[len(lines)-5:], "\n")
		}
		return nil, errors.Join(fmt.Errorf("run %s %s: %w", filepath.Base(path), strings.Join(args, " "), err), errors.New(text))
	}
	return out, nil
}

// lastWord is the version in a program's output: "edge-26.8.3", or "client version: 1.30.4".
func lastWord(out []byte) string {
	fields := strings.Fields(string(out))
	if len(fields) == 0 {
		return "unknown"
	}
	return fields[len(fields)-1]
}
