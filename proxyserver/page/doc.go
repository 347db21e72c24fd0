// Package page renders the status page of a server: for operators, and for people whose
// jobs wait. It makes HTML from the state that package pool reports, and knows nothing of
// HTTP, sessions or time.
//
// It guarantees:
//
//   - Text from clients and operators is escaped, see package markup. It becomes a link
//     only if it is a URL of http or https.
//   - A page is complete without JavaScript and without any other host. Its size is
//     bounded: long lists come in pieces, with a link to the next.
//   - A page consists of parts, each with an id. In a page for a browser that counts times
//     by itself ([Clock.Live]), a part whose state has not changed has the same text. So a
//     server sends only the parts that changed.
//
// # Inside
//
// document.go puts parts into a page, and assets.go has the files that it names.
// There is a file for each page, and one for each table; view.go, bar.go and chart.go
// say how times, owners, states and days look, and link.go where links lead.
package page
