package server

import (
	"bytes"
	"compress/gzip"
	_ "embed"
	"io"
	"net/http"
	"strings"
)

// docsScript is where the page finds Redoc.
const docsScript = "/docs/redoc.js"

// The page and Redoc 2.5.4's standalone bundle, compressed. Redoc is under the
// MIT licence; its text and those of its parts lie beside it.
var (
	//go:embed redoc/index.html
	docsHTML []byte
	//go:embed redoc/redoc.standalone.js.gz
	redocGzip []byte
)

// docsPolicy lets the page load from this server alone. Redoc sets styles from
// script and searches in a worker that it makes from a blob.
const docsPolicy = "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; font-src 'self' data:; worker-src 'self' blob:"

func (c *call) docsPage() error {
	c.w.Header().Set("Content-Security-Policy", docsPolicy)
	c.send(http.StatusOK, "text/html; charset=utf-8", docsHTML)
	return nil
}

func (c *call) docsScript() error {
	h := c.w.Header()
	h.Set("Vary", "Accept-Encoding")
	const kind = "text/javascript; charset=utf-8"
	if strings.Contains(c.r.Header.Get("Accept-Encoding"), "gzip") {
		h.Set("Content-Encoding", "gzip")
		c.send(http.StatusOK, kind, redocGzip)
		return nil
	}
	z, err := gzip.NewReader(bytes.NewReader(redocGzip))
	if err != nil {
		return err
	}
	plain, err := io.ReadAll(z)
	if err != nil {
		return err
	}
	c.send(http.StatusOK, kind, plain)
	return nil
}
