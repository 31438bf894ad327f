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

	"github.com/tare-mesh/tare/internal/experiment/mesh"
)

// byProgram lets the mesh's own program print manifests and applies them. Its version is the mesh's.
func (m *Mesh) byProgram(ctx context.Context, in mesh.InstallContext) (version, program string, err error) {
	cli := m.k.CLI
	path, err := exec.LookPath(cli.Program)
	if err != nil {
		return "", "", &Error{fmt.Errorf("find %s: %w", cli.Program, err), "install it, or leave --with-cli out: the charts need no program"}
	}
	out, err := output(ctx, path, cli.Version)
	if err != nil {
		return "", "", err
	}
	version = lastWord(out)
	in.Version = version
	dir, err := os.MkdirTemp("", "tare-mesh-")
	if err != nil {
		return "", "", fmt.Errorf("make a place for values: %w", err)
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
		args = slices.DeleteFunc(args, func(a string) bool { return a == "" }) // a template may leave one out
		if i == len(commands)-1 {
			args = append(args, m.o.Arguments...)
		}
		m.report("%s %s prints manifests, which are applied", cli.Program, strings.Join(args, " "))
		if err := m.applyOutput(ctx, path, args, fmt.Sprintf("%s-%d.yaml", cli.Program, i+1)); err != nil {
			return "", "", err
		}
	}
	return version, cli.Program + " " + version, nil
}

func (m *Mesh) applyOutput(ctx context.Context, path string, args []string, name string) error {
	out, err := output(ctx, path, args)
	if err != nil {
		return err
	}
	text, err := blotted(out)
	if err == nil {
		err = m.archive(name, text)
	}
	if err != nil {
		return fmt.Errorf("keep what %s prints: %w", filepath.Base(path), err)
	}
	all, err := objects(out)
	if err != nil {
		return fmt.Errorf("read what %s prints: %w", filepath.Base(path), err)
	}
	// The namespace is tare's already, and not to be taken for the program's.
	all = slices.DeleteFunc(all, func(o *unstructured.Unstructured) bool {
		return o.GetKind() == "Namespace" && o.GetName() == m.k.Namespace
	})
	return m.apply(ctx, m.stamp(), all)
}

// output runs a program and returns what it prints; the error has the last lines of its complaint.
func output(ctx context.Context, path string, args []string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, path, args...)
	var complaint bytes.Buffer
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	if err != nil {
		text := strings.TrimSpace(complaint.String())
		if lines := strings.Split(text, "\n"); len(lines) > 5 {
			text = strings.Join(lines[len(lines)-5:], "\n")
		}
		return nil, errors.Join(fmt.Errorf("run %s %s: %w", filepath.Base(path), strings.Join(args, " "), err), errors.New(text))
	}
	return out, nil
}

// lastWord is how programs print their version alone ("edge-26.8.3") or after words ("client version: 1.30.4").
func lastWord(out []byte) string {
	words := strings.Fields(string(out))
	if len(words) == 0 {
		return "unknown"
	}
	return words[len(words)-1]
}
