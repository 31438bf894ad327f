package cluster

import (
	"fmt"
	"os/exec"

	"github.com/tare-mesh/tare/test/cluster/internal/image"
)

// Toolbox is the reference of an image with busybox and iptables, there on every cluster.
const Toolbox = "tare.test/toolbox:1"

var applets = []string{"sh", "cat", "grep", "ip", "ls", "nc", "nslookup", "ps", "sleep"} // not wget: it crashes without the machine's /etc

func (l store) toolboxArchive() string { return l.file("toolbox.tar") }

// packToolbox makes the image from the distribution's own programs.
func (l store) packToolbox() error {
	busybox, err := exec.LookPath("busybox")
	if err != nil {
		return fmt.Errorf("pack the toolbox image: %w", err)
	}
	files := []image.File{{Path: "/bin/busybox", From: busybox}}
	for _, a := range applets {
		files = append(files, image.File{Path: "/bin/" + a, Link: "busybox"})
	}
	tables, err := image.IPTables("")
	if err != nil {
		return fmt.Errorf("pack the toolbox image: %w", err)
	}
	return image.Write(l.toolboxArchive(), image.Image{Reference: Toolbox, Files: append(files, tables...)})
}
