package cluster

import (
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/tare-mesh/tare/test/cluster/internal/image"
)

// Toolbox is the reference of an image with busybox and iptables, there on every cluster.
const Toolbox = "tare.test/toolbox:1"

var (
	applets   = []string{"sh", "cat", "grep", "ip", "ls", "nc", "nslookup", "ps", "sleep"} // not wget: it crashes without the machine's /etc
	tables    = []string{"iptables", "iptables-save", "iptables-restore", "ip6tables", "ip6tables-save", "ip6tables-restore"}
	libraries = []string{"/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib/aarch64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/lib64", "/usr/lib64", "/lib"}
)

func (l Layout) toolboxArchive() string { return l.file("toolbox.tar") }

// packToolbox makes the image from the distribution's own programs.
func (l Layout) packToolbox() error {
	busybox, err := exec.LookPath("busybox")
	if err != nil {
		return fmt.Errorf("pack the toolbox image: %w", err)
	}
	files := []image.File{{Path: "/bin/busybox", From: busybox}}
	for _, a := range applets {
		files = append(files, image.File{Path: "/bin/" + a, Link: "busybox"})
	}
	const multi = "xtables-nft-multi"
	needed, err := dynamic("/usr/sbin/" + multi)
	if err != nil {
		return fmt.Errorf("pack the toolbox image: %w", err)
	}
	files = append(files, needed...)
	for _, t := range tables {
		files = append(files, image.File{Path: "/usr/sbin/" + t, Link: multi})
	}
	return image.Write(l.toolboxArchive(), image.Image{Reference: Toolbox, Files: files})
}

// dynamic lists a dynamically linked program, its interpreter, the libraries it needs, and the extensions that
// iptables loads by name.
func dynamic(program string) ([]image.File, error) {
	files := map[string]bool{program: true}
	queue := []string{program}
	for _, dir := range libraries {
		extensions, err := filepath.Glob(filepath.Join(dir, "xtables", "*.so"))
		if err != nil {
			return nil, err
		}
		for _, e := range extensions {
			files[e] = true
		}
	}
	for ; len(queue) > 0; queue = queue[1:] {
		binary, err := elf.Open(queue[0])
		if err != nil {
			return nil, err
		}
		names, err := binary.ImportedLibraries()
		interpreter := interpreterOf(binary)
		if err := errors.Join(err, binary.Close()); err != nil {
			return nil, err
		}
		if interpreter != "" {
			files[interpreter] = true
		}
		for _, name := range names {
			path, err := library(name)
			if err != nil {
				return nil, err
			}
			if !files[path] {
				files[path] = true
				queue = append(queue, path)
			}
		}
	}
	list := make([]image.File, 0, len(files))
	for f := range files {
		list = append(list, image.File{Path: f, From: f})
	}
	return list, nil
}

func interpreterOf(binary *elf.File) string {
	section := binary.Section(".interp")
	if section == nil {
		return ""
	}
	data, err := section.Data()
	if err != nil || len(data) == 0 {
		return ""
	}
	return string(data[:len(data)-1])
}

func library(name string) (string, error) {
	for _, dir := range libraries {
		path := filepath.Join(dir, name)
		if _, err := os.Stat(path); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("find library %s: not in %v", name, libraries)
}
