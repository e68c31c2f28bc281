// A report is drawn once.

await drawPage(pageData());
