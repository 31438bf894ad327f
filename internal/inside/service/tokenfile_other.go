//go:build !unix

package service

import "os"

func isMounted(os.FileInfo) bool { return false }
