//go:build !unix

package service

import "github.com/tare-mesh/tare/internal/base/scrape"

// addProcess adds nothing: only Unix systems report the CPU time of a process here.
func addProcess(*scrape.Registry) {}
